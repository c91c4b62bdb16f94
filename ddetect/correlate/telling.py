"""Which thread speaks for a process where no page tells, or where the one that it names waits for another thread.

Training may run beside the main thread: under an event loop, in an executor, while the main thread waits in join().
So whoever is met in a collective, a loader, backward or an optimizer speaks; where nobody is, the main thread, unless
it only waits for others and one other thread of the user's does something of its own.
Enters: what its threads do. Leaves: one of it. Never here: what a thread does (classify.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddetect.correlate.doing import Doing
from ddetect.frameworks.kinds import Kind

_TRAINING = (
    frozenset({Kind.COLLECTIVE, Kind.P2P}),
    frozenset({Kind.DATA_LOADING, Kind.FETCH}),
    frozenset({Kind.BACKWARD, Kind.OPTIMIZER}),
)
"""What only training does, the most telling first."""

_OF_ITS_OWN = frozenset(
    {Kind.RENDEZVOUS, Kind.DEBUGGER, Kind.INPUT, Kind.BUILDING, Kind.CHECKPOINT, Kind.DEVICE_SYNC}
)
"""And what the main thread may do beside that; nobody else trains meanwhile."""

_EVENTS = re.compile(r"(^|/)(asyncio/\w+|selectors|socketserver)\.py$")
_FOR_A_THREAD = re.compile(r"(^|/)threading\.py:join$|(^|/)concurrent/futures/_base\.py:")


def most_telling(own: Doing, others: Sequence[Doing]) -> Doing:
    """What the thread does that speaks for all of them; `own` is the main thread, or the one that the page named."""
    if own.kind in _OF_ITS_OWN or any(own.kind in kinds for kinds in _TRAINING):
        return own
    for kinds in _TRAINING:
        for one in others:
            if one.kind in kinds:
                return one
    if not waits_for_others(own):
        return own
    busy = [one for one in others if one.frame is not None and not waits_for_others(one)]
    return busy[0] if len(busy) == 1 else own


def waits_for_others(doing: Doing) -> bool:
    """Whether it serves events, or waits for a thread to end: what it does is not what the job does. Not for a lock."""
    stack = doing.thread.stack if doing.thread is not None else ()
    if doing.kind is Kind.LOCK:
        return any(_FOR_A_THREAD.search(f"{frame.file}:{frame.function}") for frame in stack[:4])
    return doing.kind is Kind.USER and bool(stack) and _EVENTS.search(stack[0].file) is not None
