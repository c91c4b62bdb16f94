"""Who is a rank, who only works for one, and whose page is whose: real processes with real pages."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from ddetect_probe.page import PG_NONE, PG_READY, S_PG_STATE

from ddetect.agent.census import Census
from ddetect.agent.discover import is_whole_job
from ddetect.agent.pages import gone_from
from ddetect.host.proc import read_environ
from ddetect.model import UNKNOWN, Departure, Role
from tests.unit.agent.processes import finish, make_run_dir, now_ns
from tests.unit.stacks.targets import running, until

FAMILY = """
import os, sys, time
from ddetect_probe import page

def write_page(role, rank, world, state):
    writer = page.PageWriter(sys.argv[1], role)
    slots = writer.slots
    slots[page.S_RANK], slots[page.S_WORLD], slots[page.S_PG_STATE] = rank, world, state
    return writer

above = write_page(page.ROLE_RANK, 1, 2, getattr(page, sys.argv[2]))
told, tell = os.pipe()
child = os.fork()
if not child:
    write_page(page.ROLE_RANK, 3, 8, page.PG_READY)
    os.write(tell, b"ready")
    os.read(0, 1)
    os._exit(0)
os.read(told, 5)
if sys.argv[3] == "trains":
    page.pack_pair(above.raw, (page.lane_at(0) + page.L_STEPS) * 8, 5, time.monotonic_ns())
    above.lane(0, page.DATA)
os.write(1, b"ready\\n")
os.waitpid(child, 0)
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


def _look(census: Census) -> list[tuple[int, int]]:
    census.look(now_ns())
    return [(member.rank, member.pid) for member in census.ranks()]


@pytest.mark.parametrize(
    ("state", "does"), [("PG_JOINING", ""), ("PG_READY", ""), ("PG_LEAVING", ""), ("PG_NONE", "trains")]
)
def test_child_of_a_rank_that_takes_part_is_its_helper_whatever_it_joins(
    run_dir: str, state: str, does: str
) -> None:
    """The writer process of a checkpoint says that it is a rank: no restart, and training is still watched."""
    census = Census(run_dir)
    with running(FAMILY, os.path.join(run_dir, "pages"), state, does) as parent:
        assert _look(census) == [(1, parent.pid)]
        (helper,) = census.helpers()
        assert (helper.parent, helper.rank, helper.role) == (parent.pid, 1, Role.CHILD)


@pytest.mark.parametrize("state", ["PG_NONE", "PG_LEFT"])
def test_parent_that_only_starts_ranks_is_none(run_dir: str, state: str) -> None:
    """mp.spawn under a RANK that was meant for the node: the children are the ranks, and it may end as it likes."""
    census = Census(run_dir)
    with running(FAMILY, os.path.join(run_dir, "pages"), state, "") as parent:
        ((rank, child),) = _look(census)
        assert (rank, child != parent.pid, census.helpers()) == (3, True, [])

        os.kill(child, signal.SIGKILL)
        parent.kill()
        parent.wait()
        gone = {d.member.pid: d.member.role for d in census.look(now_ns())}

    assert gone == {child: Role.RANK, parent.pid: Role.OTHER}


EXECUTES_ITSELF = """
import os, sys
from ddetect_probe import page

writer = page.PageWriter(sys.argv[1], page.ROLE_RANK)
again = sys.argv[2:]
writer.slots[page.S_RANK], writer.slots[page.S_WORLD] = 0, 1
writer.slots[page.S_PG_STATE] = page.PG_READY if again else page.PG_NONE
os.write(1, b"ready\\n")
os.read(0, 1)
if not again:
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], sys.argv[1], "again"])
"""


def test_process_that_executes_itself_again_has_a_new_page(run_dir: str) -> None:
    """It keeps its pid and start time, and so the name of its page; what the old one said is not read any more."""
    census = Census(run_dir)
    with running(EXECUTES_ITSELF, os.path.join(run_dir, "pages")) as child:
        assert _look(census) == [(0, child.pid)]
        before = census.ranks()[0].page
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ready\n"

        assert _look(census) == [(0, child.pid)]
        after = census.ranks()[0].page
        assert before is not None
        assert after is not None
        assert (before is after, before.header()[S_PG_STATE], after.header()[S_PG_STATE]) == (
            False,
            PG_NONE,
            PG_READY,
        )
        census.look(now_ns())
        assert census.ranks()[0].page is after  # mapped once


ALONE = """
import os, sys
from ddetect_probe import page

writer = page.PageWriter(sys.argv[1], page.ROLE_OTHER)
os.write(1, b"ready\\n")
os.read(0, 1)
for how in sys.argv[2:]:
    if how == "says it":
        writer.slots[page.S_EXIT_CODE] = 4
    elif how == "says EXITED":
        writer.slots[page.S_EXIT] = page.EXITED
    else:
        os._exit(int(how))
"""


def _end(child: subprocess.Popen[str], killed: bool) -> None:
    if killed:
        child.kill()
        child.wait()
    else:
        finish(child)


@pytest.mark.parametrize(
    ("how", "killed", "told"),
    [
        (("3",), False, (Departure.VANISHED, UNKNOWN)),  # waited for by others, and we were not there
        (("says it", "3"), False, (Departure.RAISED, 3)),
        ((), True, (Departure.VANISHED, UNKNOWN)),
    ],
)
def test_single_process_that_dies_before_it_trains_is_the_job(
    run_dir: str, how: tuple[str, ...], killed: bool, told: tuple[Departure, int]
) -> None:
    """Nobody has joined or trained; it is told as the one rank that there is, with what is known of its end."""
    census = Census(run_dir)
    with running(ALONE, os.path.join(run_dir, "pages"), *how) as child:
        assert _look(census) == []
        assert [m.pid for m in census.watched()] == [child.pid]
        _end(child, killed)
        (departed,) = census.look(now_ns())

    gone = gone_from(departed, now_ns())
    assert (gone.rank, gone.role, (gone.how, gone.code)) == (0, Role.RANK, told)
    assert (census.ranks()[0].world_size, census.ranks()[0].local_world) == (1, 1)


def test_zombie_tells_its_code_to_who_was_late(run_dir: str) -> None:
    """A process that died before it was watched, and that nobody has waited for."""
    census = Census(run_dir)
    with running(ALONE, os.path.join(run_dir, "pages"), "3") as child:
        census.look(now_ns())
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
        until(lambda: (found := census.look(now_ns())) and gone_from(found[0], now_ns()).code == 3)


@pytest.mark.parametrize("how", [("says EXITED",), ("says EXITED", "0")])
def test_single_process_that_ends_well_before_it_trains_is_no_rank(
    run_dir: str, how: tuple[str, ...]
) -> None:
    """A script that only looks at a model has nothing to tell."""
    census = Census(run_dir)
    with running(ALONE, os.path.join(run_dir, "pages"), *how) as child:
        census.look(now_ns())
        finish(child)
        (departed,) = census.look(now_ns())

    assert (departed.member.role, census.ranks()) == (Role.OTHER, [])


def test_script_that_a_script_of_the_job_starts_is_not_the_job(
    run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell may ask a small program whether there is a GPU, and go on whatever it answers."""
    census = Census(run_dir)
    monkeypatch.setattr(
        "ddetect.agent.census.read_environ",
        lambda pid: {"DDETECT_RUN_DIR": run_dir} if pid == os.getpid() else read_environ(pid),
    )
    with running(ALONE, os.path.join(run_dir, "pages"), "says it", "3") as child:
        census.look(now_ns())
        finish(child)
        (departed,) = census.look(now_ns())

    assert (departed.member.role, census.ranks()) == (Role.OTHER, [])


CLUSTER = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'


@pytest.mark.parametrize(
    ("environ", "above", "whole"),
    [
        ({}, {}, True),
        ({"WORLD_SIZE": "1"}, {"DDETECT_RUN_DIR": "/another"}, True),
        ({}, {"DDETECT_RUN_DIR": "/run"}, False),
        ({"WORLD_SIZE": "2"}, {}, False),
        ({"SLURM_STEP_NUM_TASKS": "8"}, {}, False),
        ({"TF_CONFIG": CLUSTER}, {}, False),
    ],
)
def test_whole_job_is_below_nothing_and_one_of_one(
    environ: dict[str, str], above: dict[str, str], whole: bool
) -> None:
    """What the launcher started, unless somebody said that there are more."""
    assert is_whole_job(environ, above, "/run") is whole
