"""Torch's operations: how they are called, whom each waits for, and what its callers must agree on.

Enters: what was called, as the Flight Recorder or a stack tells it. Leaves: small values. Never here: who called it.

Allowed to differ: inputs of an uneven all_gather, outputs of an uneven reduce_scatter, all sizes of all_to_all, the
lists that only the root of gather and scatter has, and shapes of the same number of elements.
"""

from __future__ import annotations

import re

from ddetect.frameworks.framework import Agreement, Needs, Operation
from ddetect.model import UNKNOWN, CallSpec, Group

_ON_HOST = frozenset({"gloo", "mpi", "fake", ""})
_ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
_NO_SIZES = ("barrier", "all_to_all")
_CALLED = {
    "allreduce": "all_reduce", "_broadcast_oop": "broadcast", "_reduce_oop": "reduce", "allgather": "all_gather",
    "_all_gather_base": "all_gather_into_tensor", "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor", "alltoall": "all_to_all", "all_to_all_single": "all_to_all",
    "alltoall_base": "all_to_all",
}  # fmt: skip


def on_device(backend: str) -> bool:
    """Whether the host of this backend runs ahead: a stream waits, not the thread."""
    return backend not in _ON_HOST


def has_everyone(group: Group) -> bool:
    """The default group."""
    return group.name == "0"


def operation(spec: CallSpec | None) -> Operation:
    """A collective as people write it: without the variants of the C++ side."""
    if spec is None:
        return Operation("a collective")
    name = spec.op.rpartition(":")[2].lower().removesuffix("_coalesced")
    name = _CALLED.get(name, name)
    return Operation(name, Needs.ROOT if name in _ROOTED else Needs.ALL)


def agreement(spec: CallSpec) -> Agreement:
    """What the callers of one slot must agree on."""
    op = operation(spec).name
    sizes, dtypes = spec.in_sizes, spec.in_dtypes
    if op in ("all_gather", "scatter"):
        sizes, dtypes = spec.out_sizes, spec.out_dtypes
    if op in _NO_SIZES or "+" in op:
        sizes = ""
    if op == "barrier":
        dtypes = ""
    root = spec.root if op in _ROOTED else UNKNOWN
    # The list of an all_gather tells the size of every member: there the shapes themselves must agree.
    return Agreement(op, sizes if op == "all_gather" else _elements(sizes), dtypes, root, spec.reduce_op)


def _elements(sizes: str) -> str:
    """Sizes as the number of elements of each tensor: [[4, 16]] and [[64]] move the same bytes."""
    tensors = re.findall(r"\[([\d, ]*)\]", sizes)
    if not tensors or "..." in sizes:
        return sizes
    counts = []
    for tensor in tensors:
        count = 1
        for number in re.findall(r"\d+", tensor):
            count *= int(number)
        counts.append(str(count))
    return ",".join(counts)
