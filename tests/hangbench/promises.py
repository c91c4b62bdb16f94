"""What we promise of ddetect over the whole suite, and where a run of the bench does not keep it. Pure.

Enters: a run of the suite, and the scenarios that make it whole. Leaves: a sentence for each promise that is broken.
Never here: a promise for one seed of torch's suite on average with another (each seed keeps all of them), or for the
runs that are left when others are set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ddetect.scenarios.catalogue import TENSORFLOW, TORCH
from tests.hangbench.table import summary

SEEDS = 3
RIGHT = {"launch": 0.98, "attach": 0.85}
SECONDS = {  # of `ddetect launch`: (which runs, median or worst) -> at most
    ("named_s", "median"): 5.0,
    ("named_s", "worst"): 10.0,
    ("structural_alarm_s", "worst"): 10.0,
    ("starting_named_s", "worst"): 60.0,
}


TENSORFLOW_RIGHT = 0.95  # of `ddetect launch`, over all seeds together
TENSORFLOW_NAMED_S = 6.0  # the median


def broken(run: Mapping[str, Any], scenarios: Iterable[str] = TORCH) -> list[str]:
    """The promises that this run does not keep."""
    problems = [f"{tool}: {problem}" for tool in RIGHT for problem in _broken_by(tool, run, set(scenarios))]
    return problems + ([f"commit {run['commit']} is not what was run"] if run["commit"].endswith("+") else [])


def broken_of_tensorflow(run: Mapping[str, Any], scenarios: Iterable[str] = TENSORFLOW) -> list[str]:
    """The same for TensorFlow's suite, whose promises are made for all seeds together."""
    problems = list(_broken_together(run, set(scenarios)))
    return problems + ([f"commit {run['commit']} is not what was run"] if run["commit"].endswith("+") else [])


def _broken_together(run: Mapping[str, Any], scenarios: set[str]) -> Iterator[str]:
    launch = [one for one in run["runs"] if one["tool"] == "launch"]
    seeds = sorted({one["seed"] for one in launch})
    if len(seeds) < SEEDS:
        yield f"{len(seeds)} seeds, promised {SEEDS}"
    for seed in seeds:
        if missing := scenarios - {one["scenario"] for one in launch if one["seed"] == seed}:
            yield f"seed {seed} is not the whole suite: {', '.join(sorted(missing))}"
    counted = summary(launch)
    if counted["right_both"] < TENSORFLOW_RIGHT * counted["hanging"]:
        yield f"right in {counted['right_both']} of {counted['hanging']}, promised {TENSORFLOW_RIGHT:.0%}"
    median = counted["named_s"]["median"] if counted["named_s"] else None
    if median is None or median > TENSORFLOW_NAMED_S:
        yield f"named_s median is {median} s, promised {TENSORFLOW_NAMED_S}"
    for one in run["runs"]:
        if one["healthy"] and not one["right"] and not one["outcome"]["cannot"]:
            told = one["outcome"]["failed"] or "alarm"
            yield f"{one['tool']}, seed {one['seed']}: {one['scenario']} was not left in peace ({told})"


def _broken_by(tool: str, run: Mapping[str, Any], scenarios: set[str]) -> Iterator[str]:
    mine = [one for one in run["runs"] if one["tool"] == tool]
    seeds = sorted({one["seed"] for one in mine})
    if len(seeds) < SEEDS:
        yield f"{len(seeds)} seeds, promised {SEEDS}"
    for seed in seeds:
        told = [one for one in mine if one["seed"] == seed]
        counted = summary(told)
        if missing := scenarios - {one["scenario"] for one in told}:
            yield f"seed {seed} is not the whole suite: {', '.join(sorted(missing))}"
        if counted["right_both"] < RIGHT[tool] * counted["hanging"]:
            yield f"seed {seed}: right in {counted['right_both']} of {counted['hanging']}, promised {RIGHT[tool]:.0%}"
        for one in told:
            if one["healthy"] and not one["right"] and not one["outcome"]["cannot"]:
                yield f"seed {seed}: {one['scenario']} was not left in peace ({one['outcome']['failed'] or 'alarm'})"
        if tool == "launch":
            yield from _too_slow(seed, told, counted)


def _too_slow(seed: str, told: list[dict[str, Any]], counted: Mapping[str, Any]) -> Iterator[str]:
    for (which, what), most in SECONDS.items():
        took = counted[which][what] if counted[which] else None
        if took is None or took > most:
            yield f"seed {seed}: {which} {what} is {took} s, promised {most}"
    for one in told:
        took = one["seconds_to_name"]
        if one["alarm"] and not one["healthy"] and (took is None or took < 0):
            yield f"seed {seed}: {one['scenario']} has an alarm and no time"


PROMISES = {"suite": broken, "tensorflow": broken_of_tensorflow}  # by the name under which a run is published
