"""Which thread is a lane's: the one that is judged. And which threads run Python that a compiled step called.

Enters: threads that a dumper saw, and who a page says each of them is. Leaves: the lane's number, the phase. Dumpers
differ in what they print: py-spy both numbers of a thread, pystack the kernel's, faulthandler Python's.
Never here: processes, pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ddetect.model import UNKNOWN


@dataclass(frozen=True, slots=True)
class OfLane:
    """The thread of a lane: Python's ident and the kernel's number, 0 where it is not known."""

    lane: int
    ident: int
    tid: int


@dataclass(frozen=True, slots=True)
class CalledByStep:
    """A thread that runs Python for a compiled step: to make its data, or as a part of it."""

    phase: int
    ident: int
    tid: int


def lane_of(tid: int, ident: int, threads: Iterable[OfLane]) -> int:
    """The lane of a thread, UNKNOWN if it is nobody's."""
    return next((one.lane for one in threads if _same(tid, ident, one)), UNKNOWN)


def phase_of(tid: int, ident: int, calls: Iterable[CalledByStep]) -> int:
    """What a step called this thread for, UNKNOWN if none did."""
    return next((one.phase for one in calls if _same(tid, ident, one)), UNKNOWN)


def _same(tid: int, ident: int, one: OfLane | CalledByStep) -> bool:
    """The kernel's number decides: Python uses idents again."""
    return tid == one.tid if tid and one.tid else bool(ident) and ident == one.ident
