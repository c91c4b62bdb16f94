"""Steps: a tf.function that is called from eager code, and a graph that is being built.

Enters: `Function.__call__`, `ConcreteFunction.__call__`, `BaseSession.run`, `_create_concrete_function`. Leaves: the
STEP and TRACING phases, the step counter, the name of what is traced. Only the outermost call of a thread counts:
Keras' train function is one, the functions that it calls are none. A function that runs eagerly
(`run_functions_eagerly`) counts too, but its phase is left to those who see more of it. Never here: what happens
inside a call, which Python cannot see.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from sys import _getframe, exc_info
from time import monotonic_ns
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ddetect_probe import lane, state
from ddetect_probe.hooks.tensorflow import alone, sequences
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.lane import NOTHING
from ddetect_probe.page import L_STEPS, LANES_AT, OTHER, STARTING, STEP, TRACING, pack_pair
from ddetect_probe.splice import splice
from ddetect_probe.state import KEEP, LANE, mirror

STEPS_AT = (LANES_AT + L_STEPS) * 8
FUNCTIONS = "tensorflow.python.eager.polymorphic_function."
SESSION = "tensorflow.python.client.session"
CALLED = (
    (FUNCTIONS + "polymorphic_function", "Function", "__call__"),
    (FUNCTIONS + "concrete_function", "ConcreteFunction", "__call__"),
    (SESSION, "BaseSession", "run"),
)

calling: Dict[int, int] = {}  # by ident of a thread inside a call that counts: which frame of it that is
_traced: Dict[
    int, List[Tuple[str, bool]]
] = {}  # by ident: the functions that it is tracing, and is it tf.data's


def hooks_of(module: str) -> Callable[[], None]:
    """What to do once that module is there."""

    def install() -> None:
        enter = enter_of(loaded("eager.polymorphic_function.eager_function_run"))
        for name, owner, method in CALLED:
            if name == module:
                function = getattr(getattr(sys.modules[name], owner), method)
                if not splice(function, enter, leave_call):
                    state.broken(f"{owner}.{method}")

    return install


def install_tracing() -> None:
    """Hook what builds a graph."""
    tracing = loaded("eager.polymorphic_function.tracing_compilation")

    if not splice(tracing._create_concrete_function, enter_trace, leave_trace, ("tracing_options",)):
        state.broken("tracing")


def enter_of(settings: Any) -> Callable[[], Optional[int]]:
    """The hook, given where it says that functions are not compiled.

    Whether a graph is being built is known here: asking TensorFlow takes longer than all the rest, at every step.
    """

    def enter_call() -> Optional[int]:
        me = get_ident()
        frame = _getframe(1)
        if (me in calling and is_called(me, frame.f_back)) or me in _traced:
            return None
        calling[me] = id(frame)
        if state.undecided:  # now, and not when it returns: the first call is the longest, and may never do
            alone.decide()
        if settings.RUN_FUNCTIONS_EAGERLY:
            return NOTHING
        if me != state.owner:
            return lane.enter(STEP, monotonic_ns())
        before = mirror.phase
        mirror.phase = STEP
        state.slots[LANE] = (monotonic_ns() & KEEP) | STEP
        return before

    return enter_call


def is_called(ident: int, frame: Optional[FrameType]) -> bool:
    """Whether this thread, whose frame it is, is inside a call that counts.

    Its own frames are asked too: a signal handler that raised in the middle of a hook of ours may have hidden its end.
    """
    outermost = calling.get(ident)
    while frame is not None and outermost is not None:
        if id(frame) == outermost:
            return True
        frame = frame.f_back
    return False


def raised_in(frame: FrameType) -> bool:
    """Whether an exception is leaving this frame; else somebody around it handles one, and trains in his `except`."""
    error = exc_info()[1]
    trace = error.__traceback__ if error is not None else None
    return trace is not None and trace.tb_frame is frame


def begin(ident: int, frame: FrameType) -> None:
    """This thread is inside a call that counts."""
    calling[ident] = id(frame)
    if state.undecided:  # now, and not when it returns: the first call is the longest, and may never do
        alone.decide()


def leave_call(token: Optional[int]) -> None:
    """The outermost call is over, and so are the collectives that it began; if it has not raised, it was a step."""
    if token is None:
        return
    me, now = get_ident(), monotonic_ns()
    calling.pop(me, None)
    # Of a thread beside the one that trains nothing counts: a metrics daemon must not hide a hang.
    counts = not lane.lender and not state.user_steps and (token >= 0 or me == state.owner)
    if counts and not (exc_info()[0] and raised_in(_getframe(1))):
        mirror.steps = steps = mirror.steps + 1
        pack_pair(state.raw, STEPS_AT, steps, now)
    if me in sequences.opened:
        sequences.close(me)
    if token == STARTING:
        token = OTHER  # it trains, so it has started
    if token >= state.floor:
        mirror.phase = token
        state.slots[LANE] = (now & KEEP) | token
    else:
        begun = lane.phase_before(token) == STARTING
        lane.leave(lane.with_phase(token, OTHER) if begun else token, now)


def count_step(now: int) -> None:
    """One more step of this process, and this thread did it."""
    count_inside(now)
    if get_ident() != state.owner:
        lane.leave_step(now, not state.user_steps)


def count_inside(now: int) -> None:
    """One more step of this process, whoever sees it."""
    if not state.user_steps:
        mirror.steps = steps = mirror.steps + 1
        pack_pair(state.raw, STEPS_AT, steps, now)


def enter_trace(options: Any) -> int:
    """A graph is being built."""
    name = str(getattr(options, "name", "") or getattr(options.python_function, "__name__", ""))
    attributes = getattr(options, "attributes", None) or {}
    _traced.setdefault(get_ident(), []).append((name, "_tf_data_function" in attributes))
    state.text("tracing", name)
    return lane.enter_phase(TRACING)


def leave_trace(token: Optional[int]) -> None:
    """It is built, or it failed; perhaps another one goes on around it."""
    stack = _traced.get(get_ident(), [])
    if stack:
        stack.pop()
    if not stack:
        _traced.pop(get_ident(), None)
    others = stack or next(iter(list(_traced.values())), [])
    state.text("tracing", others[-1][0] if others else "")
    if token is not None:
        lane.leave_phase(token)


def tracing() -> bool:
    """Whether any thread builds a graph."""
    return bool(_traced)


def traces_data() -> bool:
    """Whether this thread builds a function of a tf.data pipeline."""
    return any(of_data for _, of_data in _traced.get(get_ident(), ()))


def forget() -> None:
    """In a forked child nobody is inside anything."""
    calling.clear()
    _traced.clear()
