"""Which end a stuck job meets under `ddetect launch`: what a person finds afterwards is what counts. Pure.

Enters: a scenario and a seed. Leaves: one of the ends of tests/live/ends.py. They go round by seed, and each scenario
begins at another one, so that a seed meets all of them and a few seeds in a row meet others.
Never here: how an end is done.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from ddetect.model import Status
from ddetect.scenarios.catalogue import TENSORFLOW, TORCH, Scenario
from tests.live.ends import CTRL_C, ITSELF, SIGINT, SIGKILL, SIGTERM, STOP, TIMEOUT, End

STUCK = (Status.HANG, Status.UNDECIDED)
BY_NAME = {end.name: end for end in (STOP, SIGTERM, SIGINT, CTRL_C, SIGKILL, TIMEOUT, ITSELF)}
_HANGS = [[one.name for one in suite.values() if one.status in STUCK] for suite in (TORCH, TENSORFLOW)]
_PLACES = {name: i for suite in _HANGS for i, name in enumerate(suite)}
GOES_ON = frozenset({"stopped_and_resumed"})  # by itself, before any timeout


def ends_of(scenario: Scenario, number: int = 0) -> tuple[End, ...]:
    """The ends that it can meet; SIGINT goes to the launcher for even numbers, and else comes from a terminal."""
    if scenario.status is Status.HEALTHY:
        return ()
    if scenario.status is Status.STOPPED:
        return (ITSELF,)  # there is nobody left to end
    ends = (STOP, SIGTERM, (SIGINT, CTRL_C)[number % 2], SIGKILL)
    if scenario.status is Status.UNDECIDED:
        ends = ends[1:]  # --on-hang stop ends a hang, and nothing that is not told
    if scenario.framework == "tensorflow":
        ends = tuple(
            end for end in ends if end not in (SIGINT, CTRL_C)
        )  # a step swallows it, and the job goes on
    # A program that starts its own ranks has no place for the wrapper that sets the timeout.
    times_out = scenario.framework == "torch" and not scenario.starts_itself and scenario.name not in GOES_ON
    return (*ends, TIMEOUT) if times_out else ends


def ending(scenario: Scenario, seed: str) -> End | None:
    """The one of a seed; None for a job that ends well by itself."""
    number = int(seed) if seed.isdecimal() else zlib.crc32(seed.encode())
    place = _PLACES.get(scenario.name, 0) + number
    ends = ends_of(scenario, place // 5)
    return ends[place % len(ends)] if ends else None


def one_per_cause(scenarios: Iterable[Scenario] = TORCH.values()) -> list[Scenario]:
    """A hang of each cause that can meet every end; first those that `make test` runs."""
    chosen: dict[object, Scenario] = {}
    for scenario in sorted(scenarios, key=lambda one: not one.every_time):
        if scenario.status is Status.HANG and TIMEOUT in ends_of(scenario):
            chosen.setdefault(scenario.cause, scenario)
    return list(chosen.values())
