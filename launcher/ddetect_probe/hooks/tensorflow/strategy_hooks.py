"""Strategies: how the job is distributed, and who this process is in it.

Enters: `StrategyBase.__init__`, the start of a multi-worker strategy, the server that it starts. Leaves: the
strategy text, the rank and the world, the JOINING phase and PG_STATE. Never here: asking a cluster resolver (some ask
a network): the server's definition says what it answered.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Any, Optional, Tuple

from ddetect_probe import lane, page, state
from ddetect_probe.hooks.tensorflow import alone, replica_hooks, sequences, tasks
from ddetect_probe.hooks.tensorflow.modules import loaded
from ddetect_probe.splice import nothing, splice

# what the classes are called where users find them
PUBLIC = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyExperimental": "MultiWorkerMirroredStrategy",
    "DefaultDistributionStrategy": "",
}

_joined: Optional[tasks.Task] = None


def install_base() -> None:
    """Hook the making of any strategy."""
    distribute_lib = loaded("distribute.distribute_lib")

    if not splice(distribute_lib.StrategyBase.__init__, _itself, made, ("self", "extended")):
        state.broken("StrategyBase")


def install_workers() -> None:
    """Hook the joining of several workers."""
    strategies = loaded("distribute.collective_all_reduce_strategy")
    context = loaded("eager.context")

    join = strategies.CollectiveAllReduceExtended._initialize_strategy
    if not splice(join, enter_join, leave_join, ("self",)):
        state.broken("_initialize_strategy")
    if not splice(context.Context.enable_collective_ops, enter_server, nothing, ("server_def",)):
        state.broken("enable_collective_ops")


def public_name(strategy: Any) -> str:
    """A strategy's name as the documentation has it, "" for the one that is none."""
    name = type(strategy).__name__.lstrip("_")
    if name in PUBLIC:
        return PUBLIC[name]
    return name[:-2] if name.endswith(("V1", "V2")) else name


def _itself(strategy: Any, extended: Any) -> Tuple[Any, Any]:
    return strategy, extended


def made(token: Optional[Tuple[Any, Any]]) -> None:
    """A strategy is there. Of parameter servers, only that."""
    if token is None:
        return
    strategy, extended = token
    kind = public_name(strategy)
    if not kind:
        return
    task = _joined if hasattr(extended, "_std_server_started") else None
    try:
        count = len(extended.worker_devices)
    except Exception:  # parameter servers have no devices before their cluster is there
        count = 1
    replica_hooks.replicas = count
    told = task or tasks.from_environment()
    alone.tell_strategy(
        kind, count, task.workers if task else 1, told.kind if told else "", told.number if told else 0
    )
    if not _anothers_rank():
        state.trains_with(alone.NAME)


def enter_join(extended: Any) -> Tuple[int, Any]:
    """It begins to ask who the other workers are, and to wait for them."""
    return lane.enter_phase(page.JOINING), extended


def enter_server(definition: Any) -> None:
    """The server says who this process is, and who the others are."""
    global _joined
    _joined = task = tasks.from_server(definition)
    if task.rank < 0:
        return
    state.slots[page.S_PG_STATE] = page.PG_JOINING
    state.slots[page.S_PG_NS] = monotonic_ns()
    state.trains_with(alone.NAME)
    state.become_rank(task.rank, task.world)


def leave_join(token: Optional[Tuple[int, Any]]) -> None:
    """All are there, or it failed."""
    if token is None:
        return
    before, extended = token
    joined = state.slots[page.S_PG_STATE] == page.PG_JOINING
    if joined:
        keys = getattr(extended, "_collective_keys", None)  # what it makes after all are there
        state.slots[page.S_PG_STATE] = page.PG_READY if keys is not None else page.PG_NONE
        state.slots[page.S_PG_NS] = monotonic_ns()
    if joined and _joined is not None and _joined.kind != "evaluator":
        options = getattr(extended, "_communication_options", None)
        backend = str(getattr(getattr(options, "implementation", None), "value", "collective")).lower()
        sequences.join(extended._task_type, extended._task_id, backend, _joined.workers)
    begun = joined and lane.phase_before(before) == page.STARTING
    lane.leave_phase(lane.with_phase(before, page.OTHER) if begun else before)


def _anothers_rank() -> bool:
    """Whether another framework's hooks say that this process is a rank of its own job."""
    return state.first_framework() != alone.NAME and state.slots[page.S_ROLE] == page.ROLE_RANK
