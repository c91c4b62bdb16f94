"""Lane 0: what this rank does, and whose thread does it.

Enters: threads that begin and end something (a load, a collective, a step). Leaves: the lane's phase, and the ident and
tid of the thread whose phase it is. Never here: a lock (a signal handler of the job may call us in the middle), an
exception because of threads that come and go.

One thread owns the lane and writes it without asking anybody; at first that is the main thread. Any other thread comes
through `enter` and `leave`: it takes the lane, or is remembered. In this order,
  who is inside something comes before who is not,
  who has ever done an optimizer step before who has not (a prefetch or a checkpoint thread),
  who is in a collective before who loads data,
  who was inside last.
Only a loan goes before all that: a thread that stands for the owner (a replica of MirroredStrategy) holds the lane
until it is given back. Against a thread that has done steps, one that has not gets the lane from the tick only, when
it has been inside since the tick before and the other has not moved: else the two would take it from each other at
every step.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import get_ident, get_native_id
from time import monotonic_ns
from typing import Dict, Set, Tuple

from ddetect_probe import lanes, page, state
from ddetect_probe.state import KEEP, LANE, mirror

NOTHING = -1  # a token of somebody who entered nothing
FADES_NS = 120_000_000_000  # a thread that did steps, and that others outlive by this much, does them no more
_HELD = 1 << 8  # more than any phase: no leave may write the lane without asking whose it is
_THREAD_AT = (page.LANES_AT + page.L_IDENT) * 8
_STEPS_AT = (page.LANES_AT + page.L_STEPS) * 8
_CALLING = frozenset((page.JOINING, page.COLLECTIVE, page.P2P, page.OPTIMIZER, page.STEP))
_INSIDE = _CALLING | {page.DATA, page.PAUSED, page.TRACING}


class KnownThread:
    """A thread that was inside something once. Of the owner, the mirror knows more."""

    __slots__ = ("before_step", "called", "phase", "since_ns", "stepped", "tid")

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.phase = self.before_step = page.OTHER
        self.since_ns = 0
        self.stepped = self.called = (
            False  # it did steps; it was in a call with others: a prefetcher does neither
        )


others: Dict[int, KnownThread] = {}  # by ident; never the owner
_own = KnownThread(0)
_astray: Set[int] = set()  # lost the lane while they were inside: their tokens look like the owner's
lender = 0  # ident of the thread that has lent the lane to another, 0 if none has
_steps_seen = 0  # a higher number in the mirror: the owner has done steps
_word_seen = 0
_looked_ns = 0


def begin() -> None:
    """With a new page, the main thread owns the lane (in a forked child, the thread that forked)."""
    global _own, lender, _steps_seen
    others.clear()
    _astray.clear()
    lender = 0
    _own = KnownThread(os.getpid())  # the kernel's number of a main thread is its process's
    _steps_seen = 0
    state.owner, state.floor = state.main, 0
    page.pack_pair(state.raw, _THREAD_AT, state.main, os.getpid())


state.on_page.append(begin)


def starting() -> None:
    """The job begins; until somebody enters something, this is all there is to say."""
    mirror.phase = page.STARTING
    state.slots[LANE] = (monotonic_ns() & KEEP) | page.STARTING


def enter_phase(phase: int) -> int:
    """This thread begins something; returns the token that `leave_phase` needs."""
    if get_ident() != state.owner:
        return enter(phase, monotonic_ns())
    before = mirror.phase
    mirror.phase = phase
    state.slots[LANE] = (monotonic_ns() & KEEP) | phase
    return before


def leave_phase(token: int) -> None:
    """It is back in the phase it had."""
    if token >= state.floor:
        mirror.phase = token
        state.slots[LANE] = (monotonic_ns() & KEEP) | token
    else:
        leave(token, monotonic_ns())


def say(phase: int) -> None:
    """This thread, which has a lane, goes on in another phase; there is nothing to come back to."""
    leave(with_phase(-2, phase), monotonic_ns())


def phase_before(token: int) -> int:
    """The phase in which a token was given, NOTHING for none."""
    return token if token >= NOTHING else -2 - token


def with_phase(token: int, phase: int) -> int:
    """The same token, to go on in another phase than the one before."""
    return phase if token >= 0 else token if token == NOTHING else -2 - phase


def enter(phase: int, now: int) -> int:
    """A thread that is not the owner begins something; its token is below `NOTHING` unless it takes the lane."""
    me = get_ident()
    if me == state.owner:  # since a moment ago
        before = mirror.phase
        mirror.phase = phase
        state.slots[LANE] = (now & KEEP) | phase
        return before
    if me in lanes.by_thread:
        return -2 - lanes.change(lanes.by_thread[me], phase, now)
    known = _known(me)
    before = known.phase
    known.phase, known.since_ns = phase, now
    if phase in _CALLING:
        known.called = True
    if _wins(known):
        _hand_over(me, known)
        return before
    return -2 - before


def leave(token: int, now: int, only_from: int = NOTHING) -> None:
    """A thread that may or may not own the lane ends something; `only_from`: unless it is in another phase by now."""
    if token == NOTHING:
        return
    before = phase_before(token)
    me = get_ident()
    if me == state.owner:
        if only_from in (NOTHING, mirror.phase):
            mirror.phase = before
            state.slots[LANE] = (now & KEEP) | before
        return
    side = lanes.by_thread.get(me)
    if side is not None:
        if only_from in (NOTHING, side.phase):
            lanes.change(side, before, now)
        return
    known = others.get(me)
    if known is not None and only_from in (NOTHING, known.phase):
        known.phase, known.since_ns = before, now
    if known is None or not _inside(known.phase):
        _found(me)


def lend() -> bool:
    """This thread lets another one stand for it, the next that calls `borrow`; False if somebody does already."""
    global lender
    if lender:
        return False
    lender = get_ident()
    return True


def borrow(phase: int) -> None:
    """This thread stands for the lender from now on: the lane is its own, whatever else goes on."""
    me = get_ident()
    if lender and me not in (lender, state.owner):
        known = _known(me)
        known.phase, known.since_ns = phase, monotonic_ns()
        _hand_over(me, known)


def lent() -> bool:
    """Whether somebody stands for the thread that lane 0 is of."""
    return lender != 0


def give_back() -> None:
    """The lender, which calls this, has the lane again; who stood for it is forgotten."""
    global lender
    if get_ident() != lender:
        return
    lender, borrower = 0, state.owner
    if borrower != get_ident():
        _hand_over(get_ident(), _known(get_ident()))
        others.pop(borrower, None)
        _found(borrower)


def enter_step() -> None:
    """A thread that is not the owner begins an optimizer step."""
    known = _known(get_ident())
    known.before_step = known.phase
    enter(page.OPTIMIZER, monotonic_ns())


def leave_step(now: int, counted: bool) -> None:
    """A thread that is not the owner has done an optimizer step, or says that it has done one."""
    global _steps_seen
    me = get_ident()
    known = _known(me)
    if counted:
        _steps_seen += 1  # this one was not the owner's
    known.stepped = True
    if known.phase == page.OPTIMIZER:
        known.phase = (
            page.OTHER if known.before_step in (page.STARTING, page.OPTIMIZER) else known.before_step
        )
        known.since_ns = now
        if not _inside(known.phase):
            _found(me)
    if _wins(known):
        _hand_over(me, known)


def user_step() -> None:
    """Count a step because the user said so."""
    state.user_steps = True
    now = monotonic_ns()
    mirror.steps = steps = mirror.steps + 1
    page.pack_pair(state.raw, _STEPS_AT, steps, now)
    if get_ident() != state.owner:
        leave_step(now, True)


def main_ends(raised: bool = False) -> None:
    """The main thread is done. The process is not while another thread trains that Python will wait for."""
    main = state.main
    if state.owner == main and mirror.phase == page.EXITING:
        return  # it stays as old as it is
    now = monotonic_ns()
    if state.owner != main:
        known = others.get(main) or KnownThread(os.getpid())
        known.phase, known.since_ns = page.EXITING, now
        others[main] = known
        if not raised and _holds_up_the_end(known):
            known.stepped = False
            return
        _hand_over(main, known)
    mirror.phase = page.EXITING
    state.slots[LANE] = (now & KEEP) | page.EXITING


def _holds_up_the_end(main: KnownThread) -> bool:
    thread = threading._active.get(state.owner)  # type: ignore[attr-defined]
    lives = thread is not None and not thread.daemon and _lives(_own)
    return lives and (_owner_stepped() or not main.stepped)


def arbitrate() -> None:
    """For the tick: give the lane to the thread that it should be of by now."""
    global _word_seen, _looked_ns
    word = state.slots[LANE]
    still = word == _word_seen
    settled_ns, _word_seen, _looked_ns = _looked_ns, word, monotonic_ns()
    if lender:
        return
    if state.owner != state.main and not _lives(_own):
        _owner_died()
    if others:
        for ident, known in list(others.items()):
            if ident != state.main and not _lives(known):
                others.pop(ident, None)
                _found(ident)
        if inside := [one for one in list(others.items()) if _inside(one[1].phase)]:
            ident, known = max(inside, key=_precedence)
            waits = still and not _inside(mirror.phase)
            if known.since_ns <= settled_ns and (waits or _wins(known)):
                _hand_over(ident, known)
        elif still and not _inside(mirror.phase):
            _follow_the_last(word & KEEP)


def _follow_the_last(owner_ns: int) -> None:
    """Nobody is inside anything: it is the lane of who does the steps or calls others, if that is not long ago."""
    _own.since_ns, _own.stepped = owner_ns, _owner_stepped()
    threads = [
        (ident, known)
        for ident, known in list(others.items())
        if known.phase != page.EXITING or known.stepped
    ]
    threads.append((state.owner, _own))
    last = max(threads, key=_since)
    training = [one for one in threads if one[1].stepped] or [one for one in threads if one[1].called]
    chosen = max(training, key=_since) if training else last
    if last[1].since_ns - chosen[1].since_ns > FADES_NS or (chosen is not last and _idles(chosen[0])):
        chosen = last
    if chosen[0] != state.owner:
        _hand_over(*chosen)


def _owner_died() -> None:
    """Its ident may be another thread's already; else somebody inside goes on, or the main thread."""
    if state.owner in sys._current_frames():
        thread = threading._active.get(state.owner)  # type: ignore[attr-defined]
        tid = getattr(thread, "native_id", None)
        if tid:  # else it is only beginning, and the next tick asks again: who has no number never dies
            _own.tid = tid
            page.pack_pair(state.raw, _THREAD_AT, state.owner, tid)
        return
    inside = [one for one in list(others.items()) if _inside(one[1].phase) and _lives(one[1])]
    ident = max(inside, key=_precedence)[0] if inside else state.main
    _hand_over(ident, others.get(ident) or KnownThread(os.getpid()))


def _hand_over(ident: int, known: KnownThread) -> None:
    global _own, _steps_seen
    slots = state.slots
    own, owner = _own, state.owner
    own.stepped = _owner_stepped()
    own.phase, own.before_step, own.since_ns = mirror.phase, mirror.before_step, slots[LANE] & KEEP
    others[owner] = own
    if _inside(own.phase):
        _astray.add(owner)
        state.floor = _HELD
    others.pop(ident, None)
    _own, _steps_seen = known, mirror.steps
    state.owner = ident
    _found(ident)
    mirror.phase, mirror.before_step = known.phase, known.before_step
    page.pack_pair(state.raw, _THREAD_AT, ident, known.tid)
    slots[LANE] = ((known.since_ns or monotonic_ns()) & KEEP) | known.phase


def _found(ident: int) -> None:
    """It owns the lane again, or is inside nothing any more: its tokens are what they seem."""
    _astray.discard(ident)
    if not _astray:
        state.floor = 0


def _known(ident: int) -> KnownThread:
    """What is known of this very thread; idents are used again, so the kernel's number counts."""
    tid = get_native_id()
    known = others.get(ident)
    if known is None or known.tid != tid:
        known = others[ident] = KnownThread(tid)
    return known


def _wins(known: KnownThread) -> bool:
    """Whether a thread gets the lane at once."""
    if lender:
        return False
    stepped = _owner_stepped()
    if not _inside(mirror.phase):
        return known.stepped or not stepped
    if known.stepped != stepped:
        return known.stepped and _inside(known.phase)
    return known.phase in _CALLING and mirror.phase == page.DATA


def _owner_stepped() -> bool:
    if mirror.steps != _steps_seen:
        _own.stepped = True
    return _own.stepped


def _inside(phase: int) -> bool:
    return phase in _INSIDE or (phase == page.LEAVING and state.slots[page.S_PG_STATE] == page.PG_LEAVING)


def _precedence(one: Tuple[int, KnownThread]) -> Tuple[bool, bool, int]:
    return one[1].stepped, one[1].phase in _CALLING, -one[1].since_ns


def _since(one: Tuple[int, KnownThread]) -> int:
    return one[1].since_ns


def _lives(known: KnownThread) -> bool:
    return not known.tid or os.path.exists(f"/proc/self/task/{known.tid}")


def _idles(ident: int) -> bool:
    """Whether a thread stands in a pool and waits for work: asyncio gives the next step to another one."""
    frame = sys._current_frames().get(ident)
    code = frame.f_code if frame is not None else None
    return code is not None and code.co_name == "_worker" and code.co_filename.endswith("futures/thread.py")
