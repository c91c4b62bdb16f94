"""Joining and leaving: init_process_group and destroy_process_group.

Enters: both functions. Leaves: PG_STATE, the JOINING and LEAVING phases, who this rank is when only the call says
so, and the groups. Never here: the rendezvous itself.
"""

from __future__ import annotations

import os
from time import monotonic_ns
from typing import Any, Callable

from ddetect_probe import lane, page, state
from ddetect_probe.hooks.torch import groups
from ddetect_probe.splice import splice


def install() -> None:
    """Hook the functions of the torch that is loaded."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    for function, enter, leave, params in (
        (c10d.init_process_group, enter_init, _leave_init(c10d), ("rank", "world_size")),
        (c10d.destroy_process_group, _enter_destroy(c10d), _leave_destroy(c10d), ("group",)),
    ):
        if not splice(function, enter, leave, params):
            state.broken(function.__name__)


def enter_init(rank: Any, world_size: Any) -> int:
    """The rank begins to join; its number may be known from the call or the environment already."""
    slots = state.slots
    slots[page.S_PG_STATE] = page.PG_JOINING
    slots[page.S_PG_NS] = monotonic_ns()
    number = rank if isinstance(rank, int) and rank >= 0 else from_environment("RANK")
    size = world_size if isinstance(world_size, int) and world_size > 0 else from_environment("WORLD_SIZE")
    state.trains_with("torch")
    state.become_rank(number, size, from_environment("LOCAL_RANK"))
    return lane.enter_phase(page.JOINING)


def from_environment(name: str) -> int:
    """A number that a launcher left in the environment, or -1."""
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else -1


def _leave_init(c10d: Any) -> Callable[[int], None]:
    def leave_init(before: int) -> None:
        slots = state.slots
        joined = c10d.is_initialized()
        slots[page.S_PG_STATE] = page.PG_READY if joined else page.PG_NONE
        slots[page.S_PG_NS] = monotonic_ns()
        if joined:
            if slots[page.S_ROLE] == page.ROLE_RANK:  # a rank's helper keeps the number of its rank
                state.set_rank(c10d.get_rank(), c10d.get_world_size(), from_environment("LOCAL_RANK"))
            groups.refresh()
        begun = joined and lane.phase_before(before) in (page.STARTING, page.LEAVING)
        lane.leave_phase(lane.with_phase(before, page.OTHER) if begun else before)

    return leave_init


def _enter_destroy(c10d: Any) -> Callable[[Any], int]:
    def enter_destroy(group: Any) -> int:
        if group is not None and group is not c10d.GroupMember.WORLD:
            return lane.NOTHING
        state.slots[page.S_PG_STATE] = page.PG_LEAVING
        state.slots[page.S_PG_NS] = monotonic_ns()
        return lane.enter_phase(page.LEAVING)

    return enter_destroy


def _leave_destroy(c10d: Any) -> Callable[[int], None]:
    def leave_destroy(before: int) -> None:
        slots = state.slots
        if slots[page.S_PG_STATE] == page.PG_LEAVING:
            slots[page.S_PG_STATE] = page.PG_READY if c10d.is_initialized() else page.PG_LEFT
            slots[page.S_PG_NS] = monotonic_ns()
        groups.refresh()
        # Who has left stays on its way out, whatever it does next: the others may still wait for it.
        left = slots[page.S_PG_STATE] == page.PG_LEFT
        lane.leave_phase(lane.with_phase(before, page.LEAVING) if left else before)

    return leave_destroy
