"""A job that is stopped is over: what works for its ranks ends with them, and what does not is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddetect.agent import end
from ddetect.agent.members import JobProcess
from ddetect.agent.node import Node
from ddetect.host.proc import is_alive, read_stat
from ddetect.messages import EndRanks, RanksEnded
from ddetect.model import Role
from tests.unit.agent.processes import make_run_dir
from tests.unit.stacks.targets import until

# A rank with a page and children: each says its pid on the rank's stdout. Some are deaf, stopped, or set apart.
RANK = """
import os, signal, subprocess, sys, time
from ddetect_probe import page
pages, *kinds = sys.argv[1:]
writer = page.PageWriter(pages, page.ROLE_RANK)
writer.slots[page.S_RANK], writer.slots[page.S_WORLD] = 0, 1
me = os.getpid()
for kind in kinds:
    if os.fork() == 0:
        if kind in ("loader", "stuck loader"):
            worker = page.PageWriter(pages, page.ROLE_LOADER_WORKER)
            worker.slots[page.S_RANK], worker.slots[page.S_PARENT], worker.slots[page.S_WORKER_INDEX] = 0, me, 0
        if kind in ("deaf", "stuck loader"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kind == "apart":
            os.setsid()
            if os.fork():
                time.sleep(600)
        if kind == "grandchild":
            if os.fork():
                time.sleep(600)
        os.write(1, f"{kind} {os.getpid()}\\n".encode())
        if kind == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        if kind == "orphan":
            while os.getppid() == me:
                time.sleep(0.01)
        time.sleep(600)
os.write(1, f"ready {me}\\n".encode())
time.sleep(600)
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


@contextmanager
def family(run_dir: str, *kinds: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]:
    """A rank in a session of its own, as torchrun starts it, and its children by what they are."""
    command = [sys.executable, "-c", RANK, os.path.join(run_dir, "pages"), *kinds]
    rank = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert rank.stdout is not None
    pids: dict[str, int] = {}
    try:
        while len(pids) <= len(kinds):
            kind, _, pid = rank.stdout.readline().decode().strip().rpartition(" ")
            pids[kind] = int(pid)
        yield rank, pids
    finally:
        starts = {pid: stat.start_ticks for pid in pids.values() if (stat := read_stat(pid)) is not None}
        for pid, ticks in starts.items():
            if is_alive(pid, ticks):
                os.kill(pid, signal.SIGKILL)
        rank.kill()
        rank.wait()
        rank.stdout.close()


def _stop(run_dir: str, grace_s: float = 3.0) -> RanksEnded:
    node = Node(run_dir, name="n", job="j")
    try:
        node.tick()
        answer = node.answer(EndRanks(grace_s))
        assert isinstance(answer, RanksEnded)
        return answer
    finally:
        node.close()


def _lives(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.state not in "ZX"


def test_stuck_loader_worker_ends_with_its_rank_and_with_it_the_pipe(run_dir: str) -> None:
    """Whoever reads the job's output waits for its last writer: `ddetect launch ... | tail`."""
    with family(run_dir, "stuck loader") as (rank, pids):
        ended = _stop(run_dir)

        assert rank.stdout is not None
        assert rank.stdout.read() == b""  # the pipe ends
        assert rank.wait(60) == -signal.SIGTERM
        assert ended == RanksEnded((pids["stuck loader"],))


def test_children_and_grandchildren_end_and_the_stopped_ones_too(run_dir: str) -> None:
    """With a page or without; a stopped one gets its SIGTERM, because it is let go on."""
    with family(run_dir, "loader", "plain", "grandchild", "stopped") as (rank, pids):
        until(lambda: (stat := read_stat(pids["stopped"])) is not None and stat.state == "T")
        ended = _stop(run_dir)

        assert rank.wait(60) == -signal.SIGTERM
        assert not any(map(_lives, pids.values()))
        assert ended == RanksEnded()  # SIGTERM was enough for all


def test_stopped_rank_is_ended_by_sigterm(run_dir: str) -> None:
    """It goes on for that, and need not be killed."""
    with family(run_dir) as (rank, _):
        rank.send_signal(signal.SIGSTOP)
        until(lambda: (stat := read_stat(rank.pid)) is not None and stat.state == "T")

        assert _stop(run_dir) == RanksEnded()
        assert rank.wait(60) == -signal.SIGTERM


def test_who_has_a_session_of_its_own_is_named_and_left(run_dir: str) -> None:
    """wandb, Ray: set apart by their authors. The outermost is named."""
    with family(run_dir, "apart", "deaf") as (rank, pids):
        stat = read_stat(pids["apart"])
        assert stat is not None
        leader = stat.parent
        try:
            ended = _stop(run_dir)
            assert rank.wait(60) == -signal.SIGTERM
            assert _lives(pids["apart"])
            assert _lives(leader)
            assert not _lives(pids["deaf"])
            assert ended.killed == (pids["deaf"],)
            assert [line.partition(" (")[0] for line in ended.left] == [f"pid {leader}"]
        finally:
            os.kill(leader, signal.SIGKILL)


def test_loader_worker_whose_rank_is_gone_already_ends(run_dir: str) -> None:
    """Its page says what it is, whoever is its parent by now."""
    with family(run_dir, "loader") as (rank, pids):
        node = Node(run_dir, name="n", job="j")
        node.tick()
        rank.kill()
        rank.wait()
        node.tick()
        node.answer(EndRanks(1.0))
        node.close()

        assert not _lives(pids["loader"])


def test_what_starts_the_ranks_and_what_stands_beside_them_live(run_dir: str) -> None:
    """torchrun must be able to start them again: here it is this test, and a bystander in its session."""
    with family(run_dir), subprocess.Popen(["sleep", "600"]) as bystander:
        try:
            _stop(run_dir)
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_worker_born_after_all_were_noted_ends_too(run_dir: str) -> None:
    """A loader may just be starting its workers; a rank of the next attempt is no worker of ours."""
    with (
        family(run_dir) as (rank, _),
        subprocess.Popen(["sleep", "600"]) as late,
        subprocess.Popen(["sleep", "600"]) as foreign,
    ):
        try:
            noted = end.note([_member(rank.pid, Role.RANK)], [])
            newcomers = [_member(late.pid, Role.LOADER_WORKER), _member(foreign.pid, Role.LOADER_WORKER)]
            newcomers[0].parent, newcomers[1].parent = rank.pid, 1
            ended = end.end_noted(noted, 3.0, lambda: newcomers)
            noted.close()
            assert ended == RanksEnded()
            assert late.wait(60) == -signal.SIGTERM
            assert foreign.poll() is None
        finally:
            late.kill()
            foreign.kill()


def test_what_will_not_die_is_said(run_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the kernel holds; here, one that no signal of ours reaches."""
    monkeypatch.setattr(end, "_send", lambda one, number: None)
    monkeypatch.setattr(end, "_DIES_WITHIN_S", 0.1)
    with family(run_dir) as (rank, _):
        ended = _stop(run_dir, 0.1)

        assert (ended.killed, ended.left) == ((), ())
        assert [line.replace("python3.11", "python") for line in ended.alive] == [
            f"pid {rank.pid} (python, S)"
        ]


def test_pid_that_was_given_to_another_is_not_touched(run_dir: str) -> None:
    """The start time is part of who a process is."""
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            member = _member(other.pid, Role.RANK)
            member.start_ticks -= 1
            noted = end.note([member], [member])

            assert noted.held == []
        finally:
            other.kill()


def _member(pid: int, role: Role) -> JobProcess:
    deadline = time.monotonic() + 60
    while (stat := read_stat(pid)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stat is not None
    return JobProcess(pid, stat.start_ticks, role, 0)
