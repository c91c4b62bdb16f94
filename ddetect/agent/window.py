"""What one process did in the last while: the stretches of time between looks, added up.

Enters: counters of threads and of sockets, each with its time. Leaves: how much they grew, per thread and for the
process. A stretch lies between the end of one look and the beginning of the next: what our own looking made threads do
is in none. Never here: /proc, clocks, locks; whose thread it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ddetect.model import UNKNOWN

_A_TICK_NS = 1_000_000
"""A thread that runs all the time may get no new turn, but its nanoseconds grow; fewer than these may be our doing."""


_HUNDREDTH_S = 0.01


class Count(NamedTuple):
    """What the kernel has counted for one thread, or by how much that has grown."""

    cpu_ns: int
    runs: int
    io_bytes: int = UNKNOWN  # UNKNOWN where we may not read it


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was done between two looks: by the threads that did anything, and by the process."""

    begin: float
    end: float
    threads: Mapping[int, Count]
    io_bytes: int = UNKNOWN
    cpu_s: float = 0.0  # with the threads that have ended meanwhile; the kernel tells it in hundredths


@dataclass(frozen=True, slots=True)
class Traffic:
    """What sockets moved between two looks, by inode."""

    begin: float
    end: float
    moved: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Sum:
    """What a thread, or several, did in a window."""

    cpu_ns: int = 0
    runs: int = 0
    bytes: int = UNKNOWN
    moved_at: float = -math.inf  # the end of the newest stretch in which such bytes had moved

    def __bool__(self) -> bool:
        return self.runs > 0 or self.bytes > 0 or self.cpu_ns >= _A_TICK_NS


def grown(now: Count, before: Count | None) -> Count:
    """How much a thread did; one that was not there, or whose number is another thread's now, has begun since."""
    if before is None or now.runs < before.runs or now.cpu_ns < before.cpu_ns:
        before = Count(0, 0, 0)
    known = now.io_bytes >= 0 and before.io_bytes >= 0
    return Count(
        now.cpu_ns - before.cpu_ns,
        now.runs - before.runs,
        max(0, now.io_bytes - before.io_bytes) if known else UNKNOWN,
    )


def add_up(several: Iterable[Sum]) -> Sum:
    """All of them together."""
    total = Sum()
    for one in several:
        total = Sum(
            total.cpu_ns + one.cpu_ns,
            total.runs + one.runs,
            plus(total.bytes, one.bytes),
            max(total.moved_at, one.moved_at),
        )
    return total


def plus(one: int, other: int) -> int:
    """Bytes added to bytes; what is UNKNOWN adds nothing, and alone stays UNKNOWN."""
    return one + other if min(one, other) >= 0 else max(one, other)


@dataclass(slots=True)
class Window:
    """The stretches of the last `span_s` seconds."""

    span_s: float
    stretches: list[Stretch] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)

    @property
    def length_s(self) -> float:
        """How long its stretches are together; nan where there is none."""
        return sum(one.end - one.begin for one in self.stretches) if self.stretches else math.nan

    def forget(self, now: float) -> None:
        """Drop what began too long ago."""
        self.stretches = [one for one in self.stretches if one.begin >= now - self.span_s]
        self.traffic = [one for one in self.traffic if one.begin >= now - self.span_s]

    def threads(self, blocked: Mapping[int, Collection[int]]) -> dict[int, Sum]:
        """What each thread did; `blocked` are the sockets that a thread waited for, whose bytes are its own too."""
        tids = dict.fromkeys(tid for one in self.stretches for tid in one.threads)
        sums = {tid: self._thread(tid, blocked.get(tid, ())) for tid in [*tids, *(blocked.keys() - tids)]}
        return {tid: one for tid, one in sums.items() if one}

    def process(self, inodes: Collection[int]) -> Sum:
        """What the process did as a whole, with these of its sockets; of CPU at least so much."""
        moved = [(one.end, one.io_bytes) for one in self.stretches] + self._through(inodes)
        cpu_ns = int(1e9 * sum(max(0.0, one.cpu_s - _HUNDREDTH_S) for one in self.stretches))
        return _with_bytes(cpu_ns, 0, moved)

    def _thread(self, tid: int, inodes: Collection[int]) -> Sum:
        mine = [(one.end, one.threads[tid]) for one in self.stretches if tid in one.threads]
        moved = [(end, count.io_bytes) for end, count in mine] + self._through(inodes)
        return _with_bytes(
            sum(count.cpu_ns for _, count in mine), sum(count.runs for _, count in mine), moved
        )

    def _through(self, inodes: Collection[int]) -> list[tuple[float, int]]:
        """When these sockets moved how much."""
        return [(one.end, sum(one.moved.get(inode, 0) for inode in inodes)) for one in self.traffic if inodes]


def _with_bytes(cpu_ns: int, runs: int, moved: list[tuple[float, int]]) -> Sum:
    total = UNKNOWN
    for _, size in moved:
        total = plus(total, size)
    return Sum(cpu_ns, runs, total, max((end for end, size in moved if size > 0), default=-math.inf))
