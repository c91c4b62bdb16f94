"""Which thread speaks for a process where no page tells, or where the one that it names waits for another thread.

Training may run beside the main thread: under an event loop, in an executor, while the main thread waits in join(). So
whoever is met in a collective, in backward or in an optimizer speaks; where nobody is, the main thread, unless it only
waits for others and one other thread of the user's does something of its own. For a compiled step the Python speaks
that it called, or a thread below Python that a native stack shows.
Also: whose work a thread waits for (a future's, a pool's, a thread's), and who is seen to do such work.
Enters: what its threads do. Leaves: one of it. Never here: what a thread does (classify.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from ddetect.correlate.doing import Doing
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import UNKNOWN, Frame

_CALLS = frozenset({Kind.COLLECTIVE, Kind.P2P})
_LOADS = frozenset({Kind.DATA_LOADING, Kind.FETCH})
_COMPUTES = frozenset({Kind.BACKWARD, Kind.OPTIMIZER})
_OF_ITS_OWN = frozenset(
    {
        Kind.RENDEZVOUS, Kind.DEBUGGER, Kind.INPUT, Kind.BUILDING, Kind.CHECKPOINT, Kind.DEVICE_SYNC, Kind.FILE_IO,
        Kind.HTTP, Kind.SUBPROCESS,
    }
)  # fmt: skip
"""What a thread does that only waits for others: none of this."""

_EVENTS = re.compile(r"(^|/)(asyncio/\w+|selectors|socketserver)\.py$")
_IN_FUTURES = re.compile(r"(^|/)concurrent/futures/_base\.py$")
_IN_POOL = re.compile(r"(^|/)concurrent/futures/thread\.py$")
_IDLE_IN_POOL = re.compile(r"(^|/)concurrent/futures/thread\.py:_worker$")
_WAITS_AT_END = re.compile(r"(^|/)threading\.py:_shutdown$")
_FOR_A_THREAD = re.compile(r"(^|/)threading\.py:join$|(^|/)concurrent/futures/_base\.py:")


def most_telling(
    own: Doing, others: Sequence[Doing], between_lanes: frozenset[str] = frozenset(), *, starves: bool = True
) -> Doing:
    """What the thread does that speaks for all of them; `own` is the main thread, or the one that the page named.

    `between_lanes` are operations in which threads of this very process meet: who is elsewhere says more.
    """
    if own.kind is Kind.STEP:
        return _within_step(own, others, starves=starves)
    meeting = [one for one in others if one.kind is Kind.COLLECTIVE and one.op in between_lanes]
    if meeting:
        others = [one for one in others if one not in meeting]
        strays = [one for one in others if _meets_them(one, meeting[0])]
        return strays[0] if strays else meeting[0]
    if own.kind in _OF_ITS_OWN | _CALLS | _LOADS | _COMPUTES or _tears_down(own):
        return own
    waits = waits_for_others(own)
    # A prefetcher loads while the main thread minds its own business; nobody computes or calls the others beside it.
    for kinds in (_CALLS, _LOADS, _COMPUTES) if waits or own.kind is Kind.LOCK else (_CALLS, _COMPUTES):
        for one in others:
            if one.kind in kinds:
                return one
    if not waits:
        return own
    pooled = any(_IN_FUTURES.search(frame.file) for frame in _stack(own)[:4])
    busy = [one for one in others if _minds_business(one) and (not pooled or _is_pooled(one))]
    if len(busy) != 1:
        return own
    return replace(busy[0], waiter=own) if own.kind is Kind.LOCK else busy[0]


class Work(Enum):
    """Whose work a thread waits for."""

    FUTURE = auto()  # an executor's: one of its threads, or of its processes
    POOL = auto()  # of processes
    PROCESS = auto()  # that multiprocessing has started
    THREAD = auto()  # one that it joins, or that fills or empties its queue


_FOR_WORK = (
    (Work.POOL, re.compile(r"(^|/)multiprocess(ing)?/pool\.py:")),
    (Work.FUTURE, re.compile(r"(^|/)concurrent/futures/_base\.py:|(^|/)futures?\.py:(result|exception)$")),
    (Work.PROCESS, re.compile(r"(^|/)multiprocess(ing)?/(process\.py:join|queues\.py:get)$")),
    (Work.THREAD, re.compile(r"(^|/)threading\.py:join$|(^|/)queue\.py:(get|put|join)$")),
)
"""In the order in which they are looked for: a pool and an executor wait by means of those that follow."""

_BEGINS = {
    Work.FUTURE: re.compile(r"(^|/)concurrent/futures/process\.py$|(^|/)loky/process_executor\.py$"),
    Work.POOL: re.compile(r"(^|/)multiprocess(ing)?/pool\.py$"),
    Work.PROCESS: re.compile(r"(^|/)multiprocess(ing)?/process\.py$"),
}
"""Where the work of a child process begins."""

_BETWEEN_PROCESSES = re.compile(r"(^|/)multiprocess(ing)?/\w+\.py$")
_NO_WORK = _CALLS | _LOADS | {Kind.UNREAD, Kind.RENDEZVOUS, Kind.STEP, Kind.TEARDOWN, Kind.LOADER_IDLE}
"""What is between members, or the job's own loop: that speaks for itself."""


def awaits(doing: Doing) -> Work | None:
    """Whose work a thread waits for, as its stack above the user's line tells; None for anything else: a lock too."""
    if doing.kind not in (Kind.LOCK, Kind.SUBPROCESS):
        return None
    stack = _stack(doing)
    above = stack[: stack.index(doing.frame)] if _has_own_line(doing) and doing.frame in stack else stack
    calls = [f"{frame.file}:{frame.function}" for frame in above]
    found = next((what for what, fits in _FOR_WORK if any(fits.search(call) for call in calls)), None)
    return None if found is Work.THREAD and doing.kind is not Kind.LOCK else found


def thread_works(doing: Doing, work: Work) -> bool:
    """Whether a thread is seen to do what another one of its process waits for."""
    if work is Work.FUTURE:
        return doing.kind is not Kind.LOCK and _has_a_task(doing, _IN_POOL)
    return work is Work.THREAD and doing.kind not in _NO_WORK and _minds_business(doing)


def child_works(doing: Doing, work: Work) -> bool:
    """Whether a child process is seen to do what a thread of its rank waits for."""
    return work in _BEGINS and _has_a_task(doing, _BEGINS[work])


def _has_a_task(doing: Doing, begins: re.Pattern[str]) -> bool:
    """Whether it is inside what such a beginning called: who waits for a task is at a line of multiprocessing's."""
    stack = _stack(doing)
    began = next((at for at, frame in enumerate(stack) if begins.search(frame.file)), 0)
    if not began or doing.kind in _NO_WORK:
        return False
    return _has_own_line(doing) or not any(
        _BETWEEN_PROCESSES.search(frame.file) for frame in stack[: min(2, began)]
    )


def _within_step(own: Doing, others: Sequence[Doing], *, starves: bool) -> Doing:
    called = [one for one in others if one.kind is Kind.FETCH or (one.thread and one.thread.phase != UNKNOWN)]
    if called:  # of a pool that makes batches, the one at a line of the user's, not the one that waits for it
        return next((one for one in called if one.frame is not None and not one.library), called[0])
    below = [one for one in others if one.thread is not None and one.thread.native]
    reduces = any(one.kind is Kind.COLLECTIVE for one in below)
    waits = any(one.kind is Kind.DATA_LOADING and one.posture is not Posture.BUSY for one in below)
    # A pipeline may fill its buffers while the step reduces.
    kind = Kind.COLLECTIVE if reduces else Kind.DATA_LOADING if waits and starves else Kind.STEP
    if kind is Kind.STEP or own.thread is None:
        return own
    # Still the same thread at the same line; the other one only tells what the step waits for.
    native = next(one.thread.native for one in below if one.kind is kind and one.thread is not None)
    return replace(own, kind=kind, thread=replace(own.thread, native=native), lock=False, told_below=True)


def _meets_them(doing: Doing, meeting: Doing) -> bool:
    """Whether a thread was begun as those were that wait for it: by the same function."""
    begun = [_stack(one)[-3:] for one in (doing, meeting)]
    return all(begun) and [frame.file for frame in begun[0]] == [frame.file for frame in begun[1]]


def waits_for_others(doing: Doing) -> bool:
    """Whether it serves events, or waits for work or for a thread to end: that is not what the job does. No lock is."""
    if doing.kind is Kind.STEP:
        return True  # what the step waits for, other threads may tell
    stack = _stack(doing)
    if stack and _IDLE_IN_POOL.search(f"{stack[0].file}:{stack[0].function}"):
        return True  # the step before ran in this thread, the next one runs in another
    if doing.kind is Kind.LOCK:
        return any(_FOR_A_THREAD.search(f"{frame.file}:{frame.function}") for frame in stack[:4])
    if doing.kind is Kind.TEARDOWN:
        return not _tears_down(doing)
    return doing.kind is Kind.USER and bool(stack) and _EVENTS.search(stack[0].file) is not None


def _minds_business(doing: Doing) -> bool:
    """Whether it does something of the user's: a library's idle thread does not, nor one that waits itself."""
    own = _has_own_line(doing) and doing.kind not in (Kind.LOCK, Kind.TEARDOWN)
    return own and not waits_for_others(doing)


def _tears_down(doing: Doing) -> bool:
    """On its way out, and not because Python only waits there for other threads to end."""
    ends = (f"{frame.file}:{frame.function}" for frame in _stack(doing))
    return doing.kind is Kind.TEARDOWN and not any(_WAITS_AT_END.search(end) for end in ends)


def _has_own_line(doing: Doing) -> bool:
    return doing.frame is not None and not doing.library


def _is_pooled(doing: Doing) -> bool:
    return any(_IN_POOL.search(frame.file) for frame in _stack(doing))


def _stack(doing: Doing) -> tuple[Frame, ...]:
    return doing.thread.stack if doing.thread is not None else ()
