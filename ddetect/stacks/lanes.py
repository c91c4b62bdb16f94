"""Which thread is a lane's: the one that is judged.

Enters: threads that a dumper saw, and who a page says each lane is. Leaves: the lane's number. Dumpers differ in what
they print: py-spy both numbers of a thread, pystack the kernel's, faulthandler Python's.
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


def lane_of(tid: int, ident: int, threads: Iterable[OfLane]) -> int:
    """The lane of a thread, UNKNOWN if it is nobody's. The kernel's number decides: Python uses idents again."""
    for one in threads:
        if tid == one.tid if tid and one.tid else ident and ident == one.ident:
            return one.lane
    return UNKNOWN
