"""Collectives that begin in Python: their numbers, and when an eager one waits.

Enters: `CollectiveKeys.get_instance_key`, the eager reduction of `CollectiveAllReduce` (the thread that waits for the
pool in which it runs), the functions of `collective_ops`. Leaves: the call counter, rows of `sequences`, the
COLLECTIVE phase. Never here: collectives inside a compiled step: only their numbers are taken in Python, when the call
begins.
"""

from __future__ import annotations

from _thread import get_ident
from time import monotonic_ns
from typing import Any, Callable, Tuple

from ddetect_probe import lane, state
from ddetect_probe.hooks.tensorflow import sequences
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.page import COLLECTIVE, L_CALLS, LANES_AT, pack_pair
from ddetect_probe.splice import nothing, splice
from ddetect_probe.state import mirror

COUNT_AT = (LANES_AT + L_CALLS) * 8
REDUCTIONS = ("_all_reduce_per_replica_values", "_batch_all_gather")
# run by the waiting thread itself: initial values of variables go from the first worker to the others
BROADCASTS = ("broadcast_send", "broadcast_recv", "broadcast_send_v2", "broadcast_recv_v2")
# run by a thread of a pool, for which another one waits
POOLED = ("all_reduce", "all_reduce_v2", "all_gather", "all_gather_v2")


def install_keys() -> None:
    """Hook where collectives get their numbers."""
    utils = loaded("distribute.cross_device_utils")

    keys = utils.CollectiveKeys.get_instance_key
    if not splice(keys, enter_key, nothing, ("group_key", "device"), result=took_key):
        state.broken("get_instance_key")


def install_reductions() -> None:
    """Hook who waits for eager collectives."""
    ops = loaded("distribute.cross_device_ops")
    context = loaded("eager.context")

    enter = enter_of(context.executing_eagerly)
    for name in REDUCTIONS:
        function = getattr(ops.CollectiveAllReduce, name, None)
        if function is not None and not splice(function, enter, lane.leave_phase):
            state.broken(name)


def install_operations() -> None:
    """Hook the operations themselves, which end what was begun eagerly."""
    context = loaded("eager.context")
    ops = loaded("ops.collective_ops")

    enter = enter_of(context.executing_eagerly)
    for name in BROADCASTS:
        function = getattr(ops, name, None)
        if function is not None and not splice(function, enter, leave_eager):
            state.broken(name)
    for name in POOLED:
        function = getattr(ops, name, None)
        if function is not None and not splice(function, enter_pooled, leave_eager):
            state.broken(name)


def enter_key(group_key: int, device: str) -> Tuple[int, str]:
    """Somebody asks for a number."""
    return group_key, device


def took_key(token: Any, key: int) -> int:
    """It has one: a collective begins."""
    mirror.calls = calls = mirror.calls + 1
    pack_pair(state.raw, COUNT_AT, calls, monotonic_ns())
    if token is not None:
        sequences.take(token[0], token[1], key)
    return key


def enter_of(executing_eagerly: Callable[[], bool]) -> Callable[[], int]:
    """The hook, given how to ask whether a graph is being built."""

    def enter_eager() -> int:
        return lane.enter_phase(COLLECTIVE) if executing_eagerly() else lane.NOTHING

    return enter_eager


def enter_pooled() -> int:
    """Another thread says that it waits for this one."""
    return lane.NOTHING


def leave_eager(token: int) -> None:
    """An operation has run, or its graph is built; inside a call, numbers stay open until that returns."""
    me = get_ident()
    if me in sequences.opened:
        sequences.close(me)
    lane.leave_phase(token)
