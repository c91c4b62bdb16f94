"""Python that TensorFlow's C++ runtime calls: generators, py_function, numpy_function.

Enters: `FuncRegistry.insert` (while a graph is built) and `FuncRegistry.__call__` (in a thread of the runtime's own).
Leaves: a row of the page for as long as a call lasts: what it is for, and whose replica's it is. Never here: a
function that eager code calls, which its own stack shows; a call for which there is no row left.
"""

from __future__ import annotations

from _thread import get_ident, get_native_id
from sys import _getframe
from time import monotonic_ns
from typing import Any, Callable, Dict, List, Optional, Tuple

from ddetect_probe import page, state
from ddetect_probe.hooks.tensorflow import replica_hooks, step_hooks
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.page import INNER_AT, INNER_DATA, INNER_ROWS, INNER_STEP, INNER_WIDTH, pack_inner
from ddetect_probe.splice import nothing, splice

NO_ROW = -1

_meant: Dict[str, Tuple[int, int]] = {}  # by token: what it is for, lane + 1
_free: List[int] = list(range(INNER_ROWS))
_counters: List[int] = [0] * INNER_ROWS


def install() -> None:
    """Hook the one registry of such functions."""
    context = loaded("eager.context")
    script_ops = loaded("ops.script_ops")

    registry = script_ops.FuncRegistry
    if not splice(registry.insert, _nothing_yet, nothing, result=inserted_of(context.executing_eagerly)):
        state.broken("FuncRegistry.insert")
    if not splice(registry.__call__, enter_inner, leave_inner, ("token",)):
        state.broken("FuncRegistry.__call__")


def inserted_of(executing_eagerly: Callable[[], bool]) -> Callable[[Any, str], str]:
    """The hook, given how to ask whether a graph is being built."""

    def inserted(_: Any, token: str) -> str:
        if step_hooks.traces_data():
            _meant[token] = (INNER_DATA, 0)
        elif not executing_eagerly():
            _meant[token] = (INNER_STEP, replica_hooks.lane_of_thread() + 1)
        return token

    return inserted


def enter_inner(token: Any) -> int:
    """The runtime calls; with `token` it says what. Returns the row, times two, and whether it was outside before.

    What the called function calls in turn is no step of the training: a tf.function that prepares a sample, say.
    """
    me = get_ident()
    frame = _getframe(1)
    outside = not step_hooks.is_called(me, frame.f_back)
    if outside:
        step_hooks.calling[me] = id(frame)
    return _row_of(token, me) * 2 + outside


def _row_of(token: Any, me: int) -> int:
    meant = _meant.get(token)
    if meant is None:
        return NO_ROW
    try:
        row = _free.pop()
    except IndexError:
        return NO_ROW
    _counters[row] = counter = _counters[row] + 2
    at = (INNER_AT + row * INNER_WIDTH) * 8
    pack_inner(state.raw, at, counter, meant[0], meant[1], me, get_native_id(), monotonic_ns())
    return row


def leave_inner(entered: Optional[int]) -> None:
    """It has what it wanted; one store frees the row."""
    if entered is None:
        return
    if entered & 1:
        step_hooks.calling.pop(get_ident(), None)
    row = entered >> 1
    if row >= 0:
        state.slots[INNER_AT + row * INNER_WIDTH + 1] = 0
        _free.append(row)


def forget() -> None:
    """In a forked child: the runtime's threads are not here."""
    _free[:] = range(page.INNER_ROWS)


def _nothing_yet() -> None:
    return None
