"""What launchers say of the job's end is heard once, and told before the deaths that it explains."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from ddetect_launcher.words import Line, Word

from ddetect.agent.deaths import Death
from ddetect.agent.launchers import KnownDeaths, Launchers
from ddetect.agent.node import Node
from ddetect.messages import JobEnds, NodeGone
from tests.unit.agent.processes import make_run_dir, rank_like


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


def test_each_word_is_heard_once_in_its_order(run_dir: str) -> None:
    """Said again it means no more."""
    launchers, line = Launchers(run_dir), Line(run_dir)
    line.passes_on(15)
    line.job_ended(143)
    line.repeat(now=True)

    assert launchers.hear()
    assert [(word.signal, word.exit_code) for word in launchers.take()] == [(15, None), (0, 143)]
    line.repeat(now=True)
    assert not launchers.hear()
    assert launchers.take() == []
    launchers.close()
    line.close()


def test_agent_that_starts_again_replaces_the_socket_and_hears_what_was_said(run_dir: str) -> None:
    """Nobody else may write to it; what was said to the one before is said again."""
    first, line = Launchers(run_dir), Line(run_dir)
    line.passes_on(15)
    first.close()
    second = Launchers(run_dir)
    line.repeat(now=True)

    assert stat.S_IMODE(os.stat(os.path.join(run_dir, "agent.sock")).st_mode) == 0o600
    assert [word.signal for word in second.take()] == [15]
    assert sorted(os.listdir(run_dir)) == ["agent.sock", "fault", "pages", "sock"]
    second.close()
    line.close()


def test_sidecar_without_a_name_or_a_clock_is_heard(run_dir: str) -> None:
    """Its time is when we hear it; nonsense beside it does no harm."""
    launchers = Launchers(run_dir)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sidecar:
        for raw in (b"nonsense", b'{"signal": 15}', b'{"signal": 15, "at_ns": 1000000000000000000000}'):
            sidecar.sendto(raw, os.path.join(run_dir, "agent.sock"))
    heard = launchers.take()

    assert [word.signal for word in heard] == [15, 15]
    assert all(abs(time.monotonic_ns() - word.at_ns) < 60e9 for word in heard)
    launchers.close()


def test_folder_that_takes_no_socket_is_said_and_lived_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path of more than 107 characters, for one."""
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    launchers = Launchers(str(deep))

    assert (launchers.fileno(), launchers.hear(), launchers.take()) == (-1, False, [])
    assert "cannot listen to the launcher" in capsys.readouterr().err
    launchers.close()


def test_status_of_a_child_is_the_launchers_where_the_kernel_told_none() -> None:
    """The launcher has waited for it before we could ask."""
    told = {(1, 10): Death(50, 256), (2, 20): Death(60, 9), (3, 30): Death(70, 0)}
    known = KnownDeaths({(1, 10): Death(40, None), (2, 20): Death(45, 15), (4, 40): Death(5, None)}, told)

    assert known.get((1, 10)) == Death(40, 256)
    assert known.get((2, 20)) == Death(45, 15)  # the kernel's word first
    assert known.get((3, 30)) == Death(70, 0)  # it died before we could watch it
    assert known.get((4, 40)) == Death(5, None)
    assert known.get((1, 11)) is None
    assert (len(known), set(known)) == (4, {(1, 10), (2, 20), (3, 30), (4, 40)})


def test_end_is_told_before_the_deaths_that_it_explains(run_dir: str) -> None:
    """Also to somebody who listens only now; there with its age, for a job may outlive a signal."""
    words: list[Word] = []
    node = Node(run_dir, name="n", job="j", words=lambda: [words.pop()] if words else [])
    with rank_like(run_dir, 0) as rank:
        node.tick()
        words.append(Word(7, time.monotonic_ns() - 3 * 10**9, signal=15))
        rank.send_signal(signal.SIGTERM)
        rank.wait(60)
        said = [message for message in node.tick() if isinstance(message, (JobEnds, NodeGone))]
        again = [message for message in node.retell() if isinstance(message, (JobEnds, NodeGone))]
        later = [message for message in node.tick() if isinstance(message, (JobEnds, NodeGone))]
    node.close()

    assert [type(message) for message in said] == [JobEnds, NodeGone]
    assert [type(message) for message in again] == [JobEnds, NodeGone]
    assert later == []
    assert isinstance(said[0], JobEnds)
    assert (said[0].signal, said[0].exit_code) == (15, None)
    assert 3.0 <= said[0].age_s < 60


def test_end_is_told_even_by_a_node_that_cannot_look(
    run_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of ours in the look does not swallow the launcher's word."""
    node = Node(run_dir, name="n", job="j", words=lambda: [Word(7, 1, signal=2)])
    node.census.look = None  # type: ignore[method-assign,assignment]

    assert [(message.signal) for message in node.tick() if isinstance(message, JobEnds)] == [2]
    assert "TypeError" in capsys.readouterr().err
    node.close()
