"""What we promise of ddetect over the whole suite, and where a run of the bench does not keep it. Pure.

Enters: a published run of the suite. Leaves: a sentence for each promise that is broken. Never here: a promise for one
seed on average with another: each seed keeps all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.hangbench.table import summary

SEEDS, HANGING, HEALTHY = 3, 45, 12  # the least that a run of the suite holds
RIGHT = {"launch": 0.98, "attach": 0.85}
SECONDS = {  # of `ddetect launch`: (which runs, median or worst) -> at most
    ("named_s", "median"): 5.0,
    ("named_s", "worst"): 10.0,
    ("structural_alarm_s", "worst"): 10.0,
    ("starting_named_s", "worst"): 60.0,
}


def broken(run: Mapping[str, Any]) -> list[str]:
    """The promises that this run does not keep."""
    return [f"{tool}: {problem}" for tool in RIGHT for problem in _broken_by(tool, run)]


def _broken_by(tool: str, run: Mapping[str, Any]) -> Iterator[str]:
    mine = [one for one in run["runs"] if one["tool"] == tool]
    seeds = sorted({one["seed"] for one in mine})
    if len(seeds) < SEEDS:
        yield f"{len(seeds)} seeds, promised {SEEDS}"
    for seed in seeds:
        counted = summary(one for one in mine if one["seed"] == seed)
        if counted["hanging"] < HANGING or counted["healthy"] < HEALTHY:
            yield f"seed {seed} is not the whole suite"
        if counted["right_both"] < RIGHT[tool] * counted["hanging"]:
            yield f"seed {seed}: right in {counted['right_both']} of {counted['hanging']}, promised {RIGHT[tool]:.0%}"
        if counted["false_alarms"]:
            yield f"seed {seed}: {counted['false_alarms']} false alarms"
        if tool == "launch":
            yield from _too_slow(seed, counted)


def _too_slow(seed: str, counted: Mapping[str, Any]) -> Iterator[str]:
    for (which, what), most in SECONDS.items():
        took = counted[which][what] if counted[which] else None
        if took is None or took > most:
            yield f"seed {seed}: {which} {what} is {took} s, promised {most}"
