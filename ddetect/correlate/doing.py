"""What a process does, as one look at it tells. Never here: how to find out (classify.py)."""

from __future__ import annotations

from dataclasses import dataclass

from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import Frame, Thread


@dataclass(frozen=True, slots=True)
class Doing:
    """What a process does: the kind from its stack, the posture from the kernel, the user's line from both."""

    kind: Kind
    posture: Posture = Posture.UNKNOWN
    op: str = ""  # of a collective, p2p or rendezvous
    frame: Frame | None = None  # innermost frame of the user; where none is, of a plain library
    thread: Thread | None = None
    lock: bool | None = None  # native stack: True a Python lock, False something else, None not asked
    library: bool = False  # the frame is a library's
    told_below: bool = False  # the kind is what a native stack tells of a compiled step
    waiter: Doing | None = None  # the member's own thread, where that one only waits for this one

    @property
    def waits_on_user_line(self) -> bool:
        """Asleep on a futex with nothing but the user's line to show: lock or not is undecided."""
        return self.kind is Kind.USER and self.posture is Posture.FUTEX and self.lock is None

    @property
    def may_wait_for_device(self) -> bool:
        """Busy at the user's line, with no native stack to tell: it may be `.item()`, which spins in the runtime."""
        code = self.kind in (Kind.USER, Kind.OPTIMIZER)
        return code and self.posture in (Posture.BUSY, Posture.POLL, Posture.UNKNOWN) and self.lock is None


COMPUTES_S = 0.05
"""CPU seconds between two looks, which are a third of a second apart or more: who only waits uses some milliseconds."""

UNREAD = Doing(Kind.UNREAD)
