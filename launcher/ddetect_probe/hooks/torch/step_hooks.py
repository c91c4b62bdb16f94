"""Optimizer steps, through torch's public hooks for all optimizers.

Enters: the global step pre and post hooks. Leaves: the OPTIMIZER phase and the step counter; several optimizers in
one loop count one step each. Never here: a hook that torch.compile would have to break a graph for: while Dynamo
traces, they are empty.
"""

from __future__ import annotations

from _thread import get_ident
from time import monotonic_ns
from typing import Any, Callable, List, Tuple

from ddetect_probe import lane, state
from ddetect_probe.page import L_STEPS, LANES_AT, OPTIMIZER, OTHER, STARTING, pack_pair
from ddetect_probe.state import KEEP, LANE, mirror

STEPS_AT = (LANES_AT + L_STEPS) * 8

_handles: List[Any] = []

Hook = Callable[[Any, Any, Any], None]


def make_hooks(is_compiling: Callable[[], bool]) -> Tuple[Hook, Hook]:
    """The pre and post hook, given how to ask whether Dynamo is tracing."""

    def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        try:
            if get_ident() == state.owner:
                mirror.before_step = mirror.phase
                mirror.phase = OPTIMIZER
                state.slots[LANE] = (monotonic_ns() & KEEP) | OPTIMIZER
            else:
                lane.enter_step()
        except Exception as error:
            switch_off(error)

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        try:
            now = monotonic_ns()
            if not state.user_steps:
                mirror.steps = steps = mirror.steps + 1
                pack_pair(state.raw, STEPS_AT, steps, now)
            if state.undecided:
                state.decide_alone("torch")
            if get_ident() == state.owner:
                phase = mirror.before_step
                if phase == STARTING or phase == OPTIMIZER:  # noqa: SIM109 - half the time of `in`, on every step
                    phase = OTHER  # it trains, so it has started; and a step within a step ends both
                mirror.phase = phase
                state.slots[LANE] = (now & KEEP) | phase
            else:
                lane.leave_step(now, not state.user_steps)
        except Exception as error:
            switch_off(error)

    return before_step, after_step


def switch_off(error: Exception) -> None:
    """Take both hooks out again, unless the exception is the job's own (from a signal handler)."""
    if not state.ours(error):
        raise error
    for handle in _handles:
        handle.remove()
    state.broken("optimizer")


def install() -> None:
    """Register with the torch that is loaded."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    compiler = torch.compiler
    is_compiling = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    before_step, after_step = make_hooks(is_compiling)
    _handles.append(register_optimizer_step_pre_hook(before_step))
    _handles.append(register_optimizer_step_post_hook(after_step))
