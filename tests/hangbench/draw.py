"""What a run varies, drawn from its seed: who is struck, when, how fast the steps are, how many ranks there are.

World size and rank go round from seed to seed, so that a few seeds in a row differ in them; the rest is chance.
"""

from __future__ import annotations

import random
import zlib

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario

WORLDS = (2, 3, 4)
TENSORFLOW_WORLDS = (2, 3, 3)  # a worker of TensorFlow's has a hundred threads
STEP_IS_THE_POINT = frozenset(
    {"healthy_growing", "healthy_plain_loop"}
)  # their slowest step is made of step_ms
LONG_S = (22, 25, 28)  # longer than ddetect's patience, shorter than the limit of tools that have a fixed one
LONG = {  # what takes that long in a healthy job, where something else tells that it moves
    "healthy_compile": "--again-s",
    "healthy_first_checkpoint": "--checkpoint-s",
    "healthy_paused": "--evaluate-s",
    "healthy_resumed": "--pause-s",
    "healthy_tokenizing": "--tokenize-s",
}


def drawn(scenario: Scenario, seed: str, *, attached: bool = False, min_world: int = 2) -> Params:
    """The same parameters for the same seed. `attached`: struck late enough that a watcher from outside is there."""
    draw = random.Random(f"{seed}/{scenario.name}")
    first, number = (
        zlib.crc32(scenario.name.encode()),
        int(seed) if seed.isdecimal() else zlib.crc32(seed.encode()),
    )
    least = max(min_world, scenario.min_world)
    worlds = [
        n for n in (TENSORFLOW_WORLDS if scenario.framework == "tensorflow" else WORLDS) if n >= least
    ] or [least]
    world_size = worlds[(first + number) % len(worlds)]
    rank, at, step_ms = (first // 12 + number) % world_size, draw.randrange(20, 50), draw.choice([15, 30, 50])
    if scenario.status is Status.HEALTHY:
        step_ms = 50 if scenario.name in STEP_IS_THE_POINT else draw.choice([30, 50, 70])
        extra = (LONG[scenario.name], str(draw.choice(LONG_S))) if scenario.name in LONG else ()
        return Params(rank=rank, world_size=world_size, at=at, step_ms=step_ms, extra=extra)
    if attached and scenario.status is Status.STOPPED:
        at, step_ms = 250, 40
    # It goes on by itself: whoever is asked on a loaded machine has to have come by then.
    extra = ("--pause-s", "25") if scenario.name == "stopped_and_resumed" else ()
    return Params(rank=rank, world_size=world_size, at=at, step_ms=step_ms, extra=extra)
