"""tf.data: when eager code waits for its next element.

Enters: `next` and its like, of one dataset's iterator and of a distributed one (which is made of several of the first,
and in a cluster of a collective). Leaves: the DATA phase and the batch counter. Never here: an iterator that is used
inside a tf.function: there `next` only adds a node to a graph, and the step waits where Python cannot see it.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Any, Callable, Optional

from ddetect_probe import lane, state
from ddetect_probe.hooks.tensorflow import alone
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.page import DATA, L_BATCHES, LANES_AT, pack_pair
from ddetect_probe.splice import splice
from ddetect_probe.state import mirror

BATCHES_AT = (LANES_AT + L_BATCHES) * 8


def install_owned() -> None:
    """Hook the iterator of a dataset; `__next__` and `get_next` are made of one function."""
    iterators = loaded("data.ops.iterator_ops")

    _hook(iterators.OwnedIterator, ("_next_internal", "get_next_as_optional"))


def install_distributed() -> None:
    """Hook the iterator of a distributed dataset."""
    input_lib = loaded("distribute.input_lib")

    _hook(input_lib.DistributedIteratorBase, ("get_next", "get_next_as_optional"))


def _hook(owner: Any, names: Any) -> None:
    context = loaded("eager.context")

    enter = enter_of(context.executing_eagerly)
    for name in names:
        if not splice(getattr(owner, name), enter, leave_next, result=got):
            state.broken(f"{owner.__name__}.{name}")


def enter_of(executing_eagerly: Callable[[], bool]) -> Callable[[], Optional[int]]:
    """The hook, given how to ask whether a graph is being built."""

    def enter_next() -> Optional[int]:
        if not executing_eagerly():
            return None
        if state.undecided:
            alone.decide_by_data()
        return lane.enter_phase(DATA)

    return enter_next


def got(token: Optional[int], value: Any) -> Any:
    """There was an element; parts of a distributed one are none of their own."""
    if token is not None and lane.phase_before(token) != DATA:
        mirror.batches = batches = mirror.batches + 1
        pack_pair(state.raw, BATCHES_AT, batches, monotonic_ns())
    return value


def leave_next(token: Optional[int]) -> None:
    """It has one, or there is none left."""
    if token is not None:
        lane.leave_phase(token)
