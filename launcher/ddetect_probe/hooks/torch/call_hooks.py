"""Collectives: that a call was made and, where the Flight Recorder cannot tell, its root and reduce op.

Enters: the functions of torch.distributed that issue one operation each (object collectives are made of them). Leaves:
the call counter, the COLLECTIVE phase, and a row with the sequence number the recorder will give this call and with the
size of its tensor: a recorder dies with its process, a page does not. Never here: completion (the recorder knows it).

The number: a group's sequence number plus one. On gloo that number also counts sends and receives, the recorder's does
not, so they are taken off (checked against the recorder in tests/live).
"""

from __future__ import annotations

from _thread import get_ident
from operator import index
from struct import error
from time import monotonic_ns
from typing import Any, Callable, Dict, Optional, Tuple

from ddetect_probe import lane, page, state
from ddetect_probe.hooks.torch import groups
from ddetect_probe.page import (
    CALLS_AT,
    CALLS_ROWS,
    CALLS_WIDTH,
    COLLECTIVE,
    L_CALLS,
    LANES_AT,
    pack_call,
    pack_pair,
)  # fmt: skip
from ddetect_probe.splice import splice
from ddetect_probe.state import KEEP, LANE, mirror

COUNT_AT = (LANES_AT + L_CALLS) * 8
WRONG_ARGUMENTS = (AttributeError, IndexError, RuntimeError, TypeError, error)

_REDUCE: Dict[int, int] = {}  # id of torch's enum value -> our number
_keep_alive: Tuple[Any, ...] = ()

BROADCAST, REDUCE, GATHER, SCATTER, ALL_REDUCE, REDUCE_SCATTER = range(1, 7)
# function: (kind, its tensor, its global root, its root within the group, its reduce op)
ROOTED = {
    "broadcast": (BROADCAST, "tensor", "src", "group_src", ""),
    "reduce": (REDUCE, "tensor", "dst", "group_dst", "op"),
    "gather": (GATHER, "tensor", "dst", "group_dst", ""),
    "scatter": (SCATTER, "tensor", "src", "group_src", ""),
    "all_reduce": (ALL_REDUCE, "tensor", "", "", "op"),
    "reduce_scatter": (REDUCE_SCATTER, "output", "", "", "op"),
    "reduce_scatter_single": (REDUCE_SCATTER, "output", "", "", "op"),
}
PLAIN = (
    "all_gather", "all_gather_single", "all_gather_coalesced", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier",
)  # fmt: skip
# what torch called them before; there they are the functions that do the work
EARLIER = {"reduce_scatter_single": "reduce_scatter_tensor", "all_gather_single": "all_gather_into_tensor"}


def install() -> None:
    """Hook the functions of the torch that is loaded."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    _learn_reduce_ops(c10d.ReduceOp)
    for name, (kind, tensor, root, group_root, op) in ROOTED.items():
        function = getattr(c10d, name, None) or getattr(c10d, EARLIER.get(name, name), None)
        params = tuple(filter(None, ("group", tensor, root, group_root, op)))
        if function is not None and not splice(
            function, enter_of(kind, bool(root), bool(op)), leave_call, params
        ):
            # older torch has no group_src: the global root is all there is
            params = tuple(filter(None, ("group", tensor, root, op)))
            if not splice(function, enter_of(kind, bool(root), bool(op), False), leave_call, params):
                state.broken(name)
    for name in PLAIN:
        function = getattr(c10d, name, None) or getattr(c10d, EARLIER.get(name, name), None)
        if function is not None and not splice(function, enter_call, leave_call):
            state.broken(name)


def _learn_reduce_ops(reduce_op: Any) -> None:
    global _keep_alive
    values = [(getattr(reduce_op, name, None), number) for number, name in enumerate(page.REDUCE_OPS) if name]
    _keep_alive = tuple(value for value, _ in values)
    _REDUCE.update({id(value): number for value, number in values if value is not None})


def reduce_number(op: Any) -> int:
    """Our number of torch's reduce op; 0 for one we have no name for."""
    found = _REDUCE.get(id(op))
    if found is not None:
        return found
    name = str(getattr(op, "name", op)).rpartition(".")[2]
    return page.REDUCE_OPS.index(name) if name in page.REDUCE_OPS else 0


def enter_call() -> int:
    """Count a call; the recorder describes the rest."""
    now = monotonic_ns()
    mirror.calls = calls = mirror.calls + 1
    pack_pair(state.raw, COUNT_AT, calls, now)
    if get_ident() != state.owner:
        return lane.enter(COLLECTIVE, now)
    before = mirror.phase
    mirror.phase = COLLECTIVE
    state.slots[LANE] = (now & KEEP) | COLLECTIVE
    return before


def leave_call(before: Optional[int]) -> None:
    """The call returned: the operation is issued, and unless it was asynchronous, done."""
    if before is not None:
        if before >= state.floor:
            mirror.phase = before
            state.slots[LANE] = (monotonic_ns() & KEEP) | before
        else:
            lane.leave(before, monotonic_ns())


def enter_of(kind: int, has_root: bool, has_op: bool, has_group_root: bool = True) -> Callable[..., int]:
    """The hook of one rooted or reducing function, for the parameters it has."""

    def enter_rooted(group: Any, tensor: Any, src: Any, group_src: Any = None) -> int:
        write_row(kind, group, tensor, src, group_src, 0)
        return enter_call()

    def enter_reducing(group: Any, tensor: Any, op: Any) -> int:
        write_row(kind, group, tensor, -1, None, _REDUCE.get(id(op)) or reduce_number(op))
        return enter_call()

    def enter_rooted_reducing(group: Any, tensor: Any, dst: Any, group_dst: Any, op: Any) -> int:
        write_row(kind, group, tensor, dst, group_dst, reduce_number(op))
        return enter_call()

    def enter_older_rooted_reducing(group: Any, tensor: Any, dst: Any, op: Any) -> int:
        write_row(kind, group, tensor, dst, None, reduce_number(op))
        return enter_call()

    if has_root and has_op:
        return enter_rooted_reducing if has_group_root else enter_older_rooted_reducing
    return enter_rooted if has_root else enter_reducing


def write_row(kind: int, group: Any, tensor: Any, root: Any, group_root: Any, op: int) -> None:
    """Write the newest call over the oldest. Nothing for a group this rank is not in."""
    found = groups.default if group is None else groups.known.get(id(group))
    process_group = found.ref() if found is not None else None
    if found is None or process_group is None or (group is not None and process_group is not group):
        found = groups.find(group)
        process_group = found.ref() if found is not None else None
        if found is None or process_group is None:
            return
    try:
        if root is None:
            root = -1 if group_root is None else found.members[group_root]
        elif type(root) is not int:
            root = index(root)
        if found.by_device is None:
            number = found.number
            sequence = process_group._get_sequence_number_for_group() + 1
            if found.counts_p2p:
                sequence -= found.p2p
        else:
            device = tensor.device
            number, counts_p2p = found.by_device.get(device.type, (found.number, False))
            sequence = process_group._get_backend(device)._get_sequence_number_for_group() + 1
            if counts_p2p:
                sequence -= found.p2p
        calls = mirror.calls
        at = CALLS_AT + (calls % CALLS_ROWS) * CALLS_WIDTH
        what = kind | tensor.numel() + 1 << 8
        pack_call(state.raw, at * 8, calls * 2 + 2, what, number, sequence, root, op)
    except (
        WRONG_ARGUMENTS
    ):  # the job's mistake, which torch is about to tell it, or a backend without numbers
        return
