"""Who has moved since when, from looks alone: nobody counts steps in a job without a probe.

Enters: one Look after another with its time. Leaves: the age of each rank's last sign of life. A sign of life is
another function in the stack, bytes that moved, a child that came or went. CPU time is none, and neither is another
line of the same function; nor what moves beside a rank (WEAK), which the coordinator weighs. Pure.
Never here: limits, verdicts, clocks.
"""

from __future__ import annotations

import math

import numpy as np

from ddetect.correlate.classify import classify
from ddetect.correlate.motion import BYTES_MOVE, WEAK, Grade, changes, efforts_of
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import Kind
from ddetect.model import UNKNOWN, Look, Role, Sample

IO_NOISE_BYTES = 2048
"""Less than this between two looks is a log line or a heartbeat. Small models send little: do not miss a step."""


class Stillness:
    """Compares each look with the one before."""

    def __init__(self, framework: Framework) -> None:
        self.framework = framework  # may be known only when the job has imported it
        self._last: Sample | None = None
        self._moved_at: dict[int, float] = {}
        self.looks = 0
        self.why: dict[int, str] = {}  # what moved last, per rank

    def see(self, look: Look, now: float) -> None:
        """Take one look."""
        sample = look.sample
        before, self._last = self._last, sample
        self.looks += 1
        if before is None:
            return
        ranks = np.unique(sample.rank[sample.rank >= 0])
        found = changes(
            before, sample, ranks, self.framework, io_noise_bytes=IO_NOISE_BYTES, homes=look.homes
        )
        # Ranks that join poll the store, hundreds of times a second: that is waiting, and its bytes are no motion.
        found.get(BYTES_MOVE, set()).difference_update(_joining(sample, self.framework))
        for one in efforts_of(look, ranks.tolist(), self.framework):
            if one.grade is Grade.WORKS and math.isfinite(one.age_s):
                found.setdefault(one.what, set()).add(one.member)
        for rank in ranks.tolist():
            if _children(before, rank) != _children(sample, rank):
                found.setdefault("its child processes change", set()).add(rank)
        for what, moved in found.items():
            for rank in moved if what not in WEAK else ():
                self._moved_at[rank] = now
                self.why[rank] = what

    def age_s(self, rank: int, now: float) -> float:
        """Seconds since this rank was last seen to move; infinite if never."""
        return now - self._moved_at[rank] if rank in self._moved_at else math.inf


def _joining(sample: Sample, framework: Framework) -> set[int]:
    joins = [classify(sighting, framework).kind is Kind.RENDEZVOUS for sighting in sample.sightings]
    rows = np.flatnonzero(sample.role == Role.RANK)
    return {int(sample.rank[row]) for row in rows if joins[int(sample.sighting[row])]}


def _children(sample: Sample, rank: int) -> set[int]:
    rows = (sample.rank == rank) & (sample.role != Role.RANK) & (sample.pid != UNKNOWN)
    return set(sample.pid[rows].tolist())
