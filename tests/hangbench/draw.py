"""What a run varies, drawn from its seed: who is struck, when, how fast the steps are, how many ranks there are."""

from __future__ import annotations

import random

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario

STEP_IS_THE_POINT = frozenset(
    {"healthy_growing", "healthy_plain_loop"}
)  # their slowest step is made of step_ms


def drawn(scenario: Scenario, seed: str, *, attached: bool = False, min_world: int = 2) -> Params:
    """The same parameters for the same seed. `attached`: struck late enough that a watcher from outside is there."""
    draw = random.Random(f"{seed}/{scenario.name}")
    least = max(min_world, scenario.min_world)
    world_size = draw.choice([n for n in (2, 3, 3, 4) if n >= least] or [least])
    rank, at, step_ms = draw.randrange(world_size), draw.randrange(20, 50), draw.choice([15, 30, 50])
    if scenario.status is Status.HEALTHY:
        step_ms = 50 if scenario.name in STEP_IS_THE_POINT else draw.choice([30, 50, 70])
        return Params(rank=-1, world_size=world_size, at=at, step_ms=step_ms)
    if attached and scenario.status is Status.STOPPED:
        at, step_ms = 250, 40
    return Params(rank=rank, world_size=world_size, at=at, step_ms=step_ms)
