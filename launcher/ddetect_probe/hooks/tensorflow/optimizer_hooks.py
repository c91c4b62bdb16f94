"""Keras' optimizers: steps of loops without a tf.function, and steps inside a call that lasts.

Enters: the making of an optimizer, its eager `apply`; the tick. Leaves: the OPTIMIZER phase, the step counter. A call
may hold many steps (`steps_per_execution`, an epoch in one tf.function): while one lasts, `iterations` is read, and
counts as a step whenever it has grown. Never here: a read that could wait for a device: a variable on a GPU is left
alone, and a read that does not return stops this one thread and neither the tick nor the job.
"""

from __future__ import annotations

import _thread
import sys
import weakref
from _thread import get_ident
from sys import _getframe
from time import monotonic_ns
from typing import Any, Callable, Dict, List, Optional

from ddetect_probe import lane, page, state
from ddetect_probe.hooks.tensorflow import step_hooks
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.splice import nothing, splice
from ddetect_probe.state import KEEP, LANE

KERAS = "keras.src.optimizers.base_optimizer"
TF_KERAS = "tf_keras.src.optimizers.optimizer"
# module, class, what it does a step with
OPTIMIZERS = (
    (KERAS, "BaseOptimizer", "apply"),
    (TF_KERAS, "_BaseOptimizer", "apply_gradients"),
)
LASTS_NS = 1_000_000_000
KEPT = 16

_known: List[Any] = []  # weak references
_seen: Dict[int, int] = {}
_wake: Any = None
_reading = False


def hooks_of(module: str) -> Callable[[], None]:
    """What to do once that module is there."""

    def install() -> None:
        context = loaded("eager.context")
        if module == KERAS and _backend() not in ("", "tensorflow"):
            return  # Keras trains with another framework

        enter = enter_of(context.executing_eagerly)
        for name, owner, apply in OPTIMIZERS:
            if name == module:
                optimizer = getattr(sys.modules[name], owner)
                if not splice(optimizer.__init__, made, nothing, ("self",)):
                    state.broken(f"{owner}.__init__")
                if not splice(getattr(optimizer, apply), enter, step_hooks.leave_call):
                    state.broken(f"{owner}.{apply}")

    return install


def _backend() -> str:
    """What Keras 3 computes with; "" where it does not say."""
    config: Any = sys.modules.get("keras.src.backend.config")
    return str(getattr(config, "_BACKEND", "")) if config is not None else ""


def made(optimizer: Any) -> None:
    """There is another optimizer."""
    _known.append(weakref.ref(optimizer))
    del _known[:-KEPT]


def enter_of(executing_eagerly: Callable[[], bool]) -> Callable[[], Optional[int]]:
    """The hook, given how to ask whether a graph is being built."""

    def enter_apply() -> Optional[int]:
        me, frame = get_ident(), _getframe(1)
        if step_hooks.is_called(me, frame.f_back) or lane.lent() or not executing_eagerly():
            return None
        step_hooks.begin(me, frame)
        return lane.enter_phase(page.OPTIMIZER)

    return enter_apply


def watch() -> None:
    """For the tick: have `iterations` read while a call lasts."""
    global _wake
    word = state.slots[LANE]
    if word & 0xFF != page.STEP or _reading or not _known or monotonic_ns() - (word & KEEP) < LASTS_NS:
        return
    if _wake is None:
        _wake = _thread.allocate_lock()
        _wake.acquire()
        state.without_signals(lambda: _thread.start_new_thread(_run, ()))
    try:
        _wake.release()
    except RuntimeError:  # it has not begun yet what it was asked for before
        pass


def _run() -> None:
    global _reading
    try:
        while True:
            _wake.acquire()
            _reading = True
            if read():
                step_hooks.count_inside(monotonic_ns())
            _reading = False
    except Exception:
        state.broken("iterations")  # `_reading` stays, so nobody asks again
    except BaseException:
        pass  # the interpreter goes down around us


def read() -> bool:
    """Whether an optimizer has done a step since the last time; the first look does not count."""
    grown = False
    for reference in list(_known):
        optimizer = reference()
        variable: Any = getattr(optimizer, "_iterations", None)
        variable = getattr(variable, "_value", variable)  # Keras 3 keeps it in a variable of its own
        variable = getattr(variable, "_primary", variable)  # of a strategy's, the first replica's
        if variable is None or "CPU" not in str(getattr(variable, "device", "")):
            continue
        count = int(variable.numpy())
        before = _seen.get(id(optimizer))
        grown = grown or (before is not None and count > before)
        _seen[id(optimizer)] = count
    return grown


def forget() -> None:
    """In a forked child that thread is not there: one that trains starts its own."""
    global _reading, _wake
    _known.clear()
    _seen.clear()
    _reading, _wake = False, None
