"""Replicas of MirroredStrategy: each has a Python thread in eager mode and while a graph is built.

Enters: `_call_for_each_replica` (the thread that starts them and waits), their threads, `merge_call`. Leaves: a lane
for each replica: OTHER in the user's function, TRACING where that builds a graph, COLLECTIVE while it waits for its
turn or for the others. They run one after another, from one `merge_call` to the next. Lane 0 is replica 0's thread
meanwhile, and the main thread's otherwise; the other lanes go when the training goes on without replica threads, in a
graph, where replicas cannot be told apart. Never here: what they compute.
"""

from __future__ import annotations

from _thread import get_ident
from sys import _getframe
from time import monotonic_ns
from typing import Any, Callable, Dict, Optional, Tuple

from ddetect_probe import lane, lanes, page, state
from ddetect_probe.hooks.tensorflow import step_hooks
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.page import COLLECTIVE, OTHER, TRACING
from ddetect_probe.splice import nothing, splice
from ddetect_probe.state import mirror

GONE_AFTER = 4  # ticks with steps in them and without replica threads

replicas = 1  # of the strategy that was made last; strategy_hooks says it
_number: Dict[int, int] = {}  # by ident: which replica a thread is
_calls = 0
_building = False  # the last call of all replicas was for a graph
_calls_seen = 0
_steps_seen = 0
_quiet_ticks = 0

Entered = Tuple[bool, bool]  # whether the lane is lent, whether this is a step of its own


def install() -> None:
    """Hook the threads of the replicas."""
    run = loaded("distribute.mirrored_run")
    context = loaded("eager.context")

    thread = run._MirroredReplicaThread
    for function, enter, leave, params, result in (
        (run._call_for_each_replica, enter_of(context.executing_eagerly), leave_all, (), all_done),
        (thread.run, enter_run, leave_run, ("self",), None),
        (thread.restore_thread_local_summary_state, enter_turn, nothing, ("self",), None),
        (run._MirroredReplicaContext._merge_call, enter_merge, leave_merge, (), None),
    ):
        if not splice(function, enter, leave, params, result=result):
            state.broken(function.__qualname__)


def enter_of(executing_eagerly: Callable[[], bool]) -> Callable[[], Entered]:
    """The hook, given how to ask whether a graph is being built."""

    def enter_all() -> Entered:
        global _building, _calls
        _calls += 1
        me = get_ident()
        _building = not executing_eagerly()
        frame = _getframe(1)
        counts = not _building and not step_hooks.is_called(me, frame.f_back)
        if counts:
            step_hooks.begin(me, frame)
        return lane.lend(), counts

    return enter_all


def all_done(token: Optional[Entered], value: Any) -> Any:
    """All replicas have returned: in eager mode, that was a step of each."""
    if token is not None and token[1]:
        now = monotonic_ns()
        step_hooks.count_step(now)
        lanes.count_step(now)
    return value


def leave_all(token: Optional[Entered]) -> None:
    """The thread that started them goes on alone."""
    if token is not None:
        if token[1]:
            step_hooks.calling.pop(get_ident(), None)
        if token[0]:
            lane.give_back()
        if mirror.phase == page.STARTING:
            lane.say(OTHER)  # it trains, so it has started


def enter_run(thread: Any) -> None:
    """A replica's thread has started; it is not its turn yet."""
    replica = thread.replica_id
    _number[get_ident()] = replica
    if not lane.lent():
        return
    if replica == 0:
        lane.borrow(COLLECTIVE)
    else:
        lanes.take(replica, COLLECTIVE)


def enter_turn(thread: Any) -> None:
    """Its first turn: from here on it runs the user's function, or builds a graph of it."""
    lane.say(OTHER if thread.in_eager else TRACING)


def leave_run(token: None) -> None:
    """It has done its part, and the next one begins when all have."""
    _number.pop(get_ident(), None)
    lane.say(COLLECTIVE)
    lanes.part(COLLECTIVE)


def enter_merge() -> int:
    """It waits until all others are here too."""
    return lane.enter_phase(COLLECTIVE)


def leave_merge(token: int) -> None:
    """Its next turn."""
    lane.leave_phase(token)


def lane_of_thread() -> int:
    """Which replica this thread works for, -1 if that cannot be told."""
    return _number.get(get_ident(), 0 if replicas <= 1 else -1)


def fade() -> None:
    """For the tick: lanes of replicas that have no threads any more go.

    At once when their graph is built; an eager loop may make new threads in its next step, so there only when several
    ticks with steps in them had none.
    """
    global _calls_seen, _steps_seen, _quiet_ticks
    if not lanes.shown():
        return
    steps = mirror.steps
    if _building and not lane.lent() and not step_hooks.tracing():
        lanes.vanish()
    elif _calls != _calls_seen or lane.lent():
        _quiet_ticks = 0
    elif steps != _steps_seen:
        _quiet_ticks += 1
        if _quiet_ticks >= GONE_AFTER:
            lanes.vanish()
    _calls_seen, _steps_seen = _calls, steps


def forget() -> None:
    """In a forked child there are no such threads."""
    _number.clear()
