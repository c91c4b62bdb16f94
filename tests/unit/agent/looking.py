"""Look at programs as the agent does, with a real dump each time, and say what their threads did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ddetect.agent.members import JobProcess
from ddetect.agent.sample import Sampler
from ddetect.host.proc import read_stat, read_tasks
from ddetect.messages import TakeEvidence
from ddetect.model import UNKNOWN, Look, Role
from tests.unit.agent.test_sources import NoCensus
from tests.unit.stacks.targets import until

BELOW, MAIN = "below Python", "MainThread"


@dataclass(frozen=True)
class Did:
    """What a thread did, as the look tells it."""

    busy: float
    runs: int
    bytes: int
    bytes_age_s: float


class Looker:
    """One sampler, and its looks."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def look(self, rank: JobProcess, *helpers: JobProcess, light: bool = False) -> Look:
        """Look at a rank and those that work for it."""
        return self.sampler.take(TakeEvidence(1, light=light), [rank], list(helpers)).look


@contextmanager
def looking(tmp_path: Path) -> Iterator[Looker]:
    """A sampler of no job in particular."""
    sampler = Sampler(NoCensus(tmp_path), (), probes=False)  # type: ignore[arg-type]
    try:
        yield Looker(sampler)
    finally:
        sampler.close()


def process(pid: int, role: Role = Role.RANK, rank: int = 0) -> JobProcess:
    """A process of the job, without a page."""
    stat = read_stat(pid)
    assert stat is not None
    return JobProcess(pid, stat.start_ticks, role, rank, stat=stat)


def did(look: Look, pid: int) -> dict[str, Did]:
    """What the threads of a process did, by their names in Python; its window must have a length."""
    row = look.sample.pid.tolist().index(pid)
    assert look.sample.metered_s[row] > 0
    threads = look.sample.sightings[look.sample.sighting[row]].threads
    found: dict[str, Did] = {}
    for at in range(len(look.efforts)):
        if look.efforts.pid[at] == pid:
            place = int(look.efforts.thread[at])
            name = BELOW if place == UNKNOWN else MAIN if threads[place].is_main else threads[place].name
            assert name not in found, "one row for each thread"
            found[name] = Did(
                float(look.efforts.busy[at]),
                int(look.efforts.runs[at]),
                int(look.efforts.bytes[at]),
                float(look.efforts.bytes_age_s[at]),
            )
    return found


def moved_bytes(look: Look, pid: int) -> int:
    """What the whole process moved."""
    return int(look.sample.moved_bytes[look.sample.pid.tolist().index(pid)])


def is_first(look: Look, pid: int) -> bool:
    """Whether nothing was metered yet: no window, and no rows."""
    row = look.sample.pid.tolist().index(pid)
    return math.isnan(look.sample.metered_s[row]) and pid not in look.efforts.pid.tolist()


def all_wait(pid: int, threads: int, *calls: str) -> None:
    """Wait until it has so many threads, and all are in one of these system calls."""
    until(
        lambda: (
            len(tasks := read_tasks(pid)) == threads
            and all(task.state == "S" and task.syscall in calls for task in tasks)
        )
    )
