"""Lanes 1 and up: members of the job that share this process with lane 0, each in a thread of its own.

Enters: threads that begin and end to be a lane. Leaves: that lane's phase, thread and steps. A thread is a lane's for
the length of a call only; between two calls the lane has a phase and no thread. Never here: lane 0, which several
threads may claim (`lane.py`); a framework.
"""

from __future__ import annotations

from _thread import get_ident, get_native_id
from time import monotonic_ns
from typing import Dict

from ddetect_probe import page, state
from ddetect_probe.state import KEEP


class Side:
    """A lane beside lane 0, while it has a thread or after."""

    __slots__ = ("at", "phase", "steps")

    def __init__(self, number: int) -> None:
        self.at = page.lane_at(number)
        self.phase = page.OTHER
        self.steps = 0


by_thread: Dict[int, Side] = {}  # by ident; empty in most jobs
_sides: Dict[int, Side] = {}  # by number; those that the page shows


def begin() -> None:
    """A new page has no such lane."""
    by_thread.clear()
    _sides.clear()


state.on_page.append(begin)


def take(number: int, phase: int) -> None:
    """This thread is that lane from now on."""
    if not 0 < number < page.LANES:
        return
    side = _sides.get(number)
    if side is None:
        side = _sides[number] = Side(number)
    by_thread[get_ident()] = side
    page.pack_pair(state.raw, (side.at + page.L_IDENT) * 8, get_ident(), get_native_id())
    change(side, phase, monotonic_ns())


def part(phase: int) -> None:
    """This thread is no lane any more; the lane goes on in a phase of its own, without a thread."""
    side = by_thread.pop(get_ident(), None)
    if side is not None:
        page.pack_pair(state.raw, (side.at + page.L_IDENT) * 8, 0, 0)
        change(side, phase, monotonic_ns())


def change(side: Side, phase: int, now: int) -> int:
    """Say what a lane does from now on; returns what it did."""
    before = side.phase
    side.phase = phase
    state.slots[side.at + page.L_PHASE] = (now & KEEP) | phase
    return before


def count_step(now: int) -> None:
    """All lanes have done a step together."""
    for side in list(_sides.values()):
        side.steps += 1
        page.pack_pair(state.raw, (side.at + page.L_STEPS) * 8, side.steps, now)


def shown() -> bool:
    """Whether the page shows any lane but 0."""
    return bool(_sides)


def vanish() -> None:
    """Nobody is such a lane any more: the page shows lane 0 alone."""
    for number in list(_sides):
        side = _sides.pop(number)
        state.slots[side.at + page.L_PHASE] = 0
