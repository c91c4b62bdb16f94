"""A light look costs the job nothing: nobody is paused, asked or dumped twice, and what moves is seen all the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddetect.agent import glance
from ddetect.agent.census import Census
from ddetect.agent.members import JobProcess
from ddetect.agent.sample import Sampler
from ddetect.agent.sources import PageSource, Reading
from ddetect.host.proc import read_runs, read_tids
from ddetect.messages import TakeEvidence
from ddetect.model import Look, Role, Sighting
from tests.unit.agent.looking import BELOW, MAIN, all_wait, did, is_first, process
from tests.unit.agent.processes import make_run_dir, now_ns, rank_like
from tests.unit.stacks.targets import running, until

pytestmark = pytest.mark.usefixtures("unhurried")


class Recorder:
    """Would have to ask the rank."""

    what = "collectives"
    waits = True
    of = ""
    asked = False

    def read(self, process: JobProcess) -> Reading:
        self.asked = True
        return Reading()


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


@pytest.fixture
def dumped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids that were dumped, as they are."""
    pids: list[int] = []
    plain = glance.read_stacks

    def noting(pid: int, **how: Any) -> Any:
        pids.append(pid)
        return plain(pid, **how)

    monkeypatch.setattr(glance, "read_stacks", noting)
    return pids


@contextmanager
def glancing(run_dir: str, *sources: Any) -> Iterator[Sampler]:
    sampler = Sampler(Census(run_dir), sources or (PageSource(),))
    try:
        yield sampler
    finally:
        sampler.close()


def look_at(sampler: Sampler, *helpers: JobProcess, light: bool = True) -> Look:
    sampler._census.look(now_ns())
    ranks, found = sampler.targets()
    return sampler.take(TakeEvidence(1, light=light), ranks, [*found, *helpers]).look


def sighting(look: Look, pid: int) -> Sighting:
    return look.sample.sightings[look.sample.sighting[look.sample.pid.tolist().index(pid)]]


def started(stack: ExitStack, run_dir: str, hows: list[str]) -> list[subprocess.Popen[str]]:
    """Ranks, each with its page, that all wait for a line."""
    ranks = [stack.enter_context(rank_like(run_dir, rank, how=how)) for rank, how in enumerate(hows)]
    for rank, how in zip(ranks, hows, strict=True):
        all_wait(rank.pid, 2 if how == "in a thread" else 1, "read", "futex")
    return ranks


def test_ranks_that_wait_alike_are_dumped_once(run_dir: str, dumped: list[int]) -> None:
    """The lowest is looked into, in passing, and stands for the others; who waits elsewhere is dumped too."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        alike = started(stack, run_dir, ["", "", ""])
        look_at(sampler, light=False)  # now the probe's threads are known
        dumped.clear()
        with rank_like(run_dir, 3, how="in a thread") as other:
            all_wait(other.pid, 2, "read", "futex")
            look_at(sampler, light=False)
            look = look_at(sampler)

    assert dumped == [alike[0].pid, other.pid]
    seen = [sighting(look, rank.pid) for rank in alike]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0].dumper == "py-spy --nonblocking"
    assert seen[0].main is not None
    assert seen[0].main.stack[0].function == "wait_here"
    (lane,) = [thread for thread in sighting(look, other.pid).threads if thread.lane == 0]
    assert (lane.is_main, lane.syscall) == (False, "read")


def test_ranks_in_other_phases_are_not_alike(run_dir: str, dumped: list[int]) -> None:
    """What the kernel shows is the same for both; what their pages say is not."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        ranks = started(stack, run_dir, ["", "lanes 1 and 3"])
        look_at(sampler)

    assert sorted(dumped) == sorted(rank.pid for rank in ranks)


def test_light_look_makes_nobody_run(run_dir: str) -> None:
    """Not a thread of the job is put on a CPU for it; a full look wakes up each of them."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        ranks = started(stack, run_dir, ["", "in a thread"])
        threads = [(rank.pid, tid) for rank in ranks for tid in read_tids(rank.pid)]

        def counted() -> list[int]:
            return [read_runs(pid, tid)[1] for pid, tid in threads]

        before = counted()
        for _ in range(3):
            look_at(sampler)
        after_light = counted()
        look_at(sampler, light=False)
        after_full = counted()

    assert after_light == before
    assert all(now > then for now, then in zip(after_full, before, strict=True))


def test_rank_is_not_asked_but_its_page_is_read(run_dir: str) -> None:
    """What a recorder would have told is said to be missing; what pages tell is there."""
    recorder = Recorder()
    with ExitStack() as stack, glancing(run_dir, recorder, PageSource()) as sampler:
        started(stack, run_dir, ["", ""])
        look = look_at(sampler)

    assert not recorder.asked
    assert look.comms.p2p.rank.tolist() == [0, 1]
    assert [(item.ranks, item.reason) for item in look.unread] == [
        ((0, 1), f"collectives: {glance.NOT_ASKED}")
    ]


def test_loader_worker_is_a_row_with_what_the_kernel_says(run_dir: str, dumped: list[int]) -> None:
    """No stack is taken of it, which is said in its row and nowhere else; what it did is one row."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        (rank,) = started(stack, run_dir, [""])
        worker = stack.enter_context(rank_like(run_dir, 0, role=2, index=1, how="fetching"))
        spinner = stack.enter_context(running("print('ready', flush=True)\nwhile True: pass"))
        all_wait(worker.pid, 1, "read")
        child = process(spinner.pid, Role.CHILD)
        first = look_at(sampler, child)
        seen = read_runs(spinner.pid, spinner.pid)[0]
        until(lambda: read_runs(spinner.pid, spinner.pid)[0] > seen + 50_000_000)
        look = look_at(sampler, child)

    assert set(dumped) == {rank.pid}
    assert is_first(first, spinner.pid)
    of_worker = sighting(look, worker.pid)
    assert of_worker.main is not None
    assert (of_worker.main.syscall, of_worker.main.stack, of_worker.unread) == ("read", (), glance.NOT_TAKEN)
    assert look.sample.fetching.tolist() == [-1, 42, -1]
    assert [item.reason for item in look.unread] == []
    assert (did(look, worker.pid), did(look, spinner.pid).keys()) == ({}, {BELOW})


def let_run(pid: int, tid: int, turns: int = 3) -> None:
    """Wait until a thread has been put on a CPU some times more."""
    seen = read_runs(pid, tid)[1]
    until(lambda: read_runs(pid, tid)[1] >= seen + turns)


TICKING = """
import os, sys, threading
from ddetect_probe import beat, page, state
state.open_page(sys.argv[1], page.ROLE_RANK)
state.slots[page.S_RANK], state.slots[page.S_WORLD], state.slots[page.S_PG_STATE] = int(sys.argv[2]), 3, page.PG_READY
beat.PERIOD_S = 0.02
beat.start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_tick_of_a_rank_that_was_never_dumped_for_its_stack_is_learned(
    run_dir: str, dumped: list[int]
) -> None:
    """One rank a look is dumped for that alone, until the probe's thread is known of each."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        ranks = [stack.enter_context(running(TICKING, run_dir, str(rank))) for rank in range(3)]
        rows = []
        for _ in range(4):
            for rank in ranks:
                let_run(rank.pid, read_tids(rank.pid)[1])
            rows.append([len(look_at(sampler).efforts), len(dumped)])

    assert rows == [[0, 1], [1, 3], [0, 5], [0, 6]]


def test_main_thread_of_a_rank_that_was_not_dumped_has_its_own_row(run_dir: str) -> None:
    """The sighting is another rank's; what the thread did is its own."""
    code = """
import sys, time
from ddetect_probe import page
writer = page.PageWriter(sys.argv[1], 1)
slots = writer.slots
slots[page.S_RANK], slots[page.S_WORLD], slots[page.S_PG_STATE] = int(sys.argv[2]), 2, page.PG_READY
print("ready", flush=True)
while True: time.sleep(float(sys.argv[3]))
"""
    pages = os.path.join(run_dir, "pages")
    with (
        running(code, pages, "0", "3600") as still,
        running(code, pages, "1", "0.05") as moving,
        glancing(run_dir) as sampler,
    ):
        all_wait(still.pid, 1, "clock_nanosleep", "select", "pselect6")
        look_at(sampler, light=False)
        let_run(moving.pid, moving.pid)
        all_wait(moving.pid, 1, "clock_nanosleep", "select", "pselect6")
        look = look_at(sampler)

    assert (did(look, still.pid), did(look, moving.pid).keys()) == ({}, {MAIN})


def test_rank_that_is_gone_is_a_row(run_dir: str) -> None:
    """It is never left out."""
    with ExitStack() as stack, glancing(run_dir) as sampler:
        ranks = started(stack, run_dir, ["", ""])
        sampler._census.look(now_ns())
        targets = sampler.targets()
        ranks[1].kill()
        ranks[1].wait()
        look = sampler.take(TakeEvidence(1, light=True), *targets).look

    assert (look.sample.rank.tolist(), sighting(look, ranks[1].pid).state) == ([0, 1], "gone")
