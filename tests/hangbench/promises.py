"""What we promise of ddetect over the whole suite, and where a run of the bench does not keep it. Pure.

Enters: a run of the suite, and the scenarios that make it whole. Leaves: a sentence for each promise that is broken.
Never here: a promise for one seed of torch's suite on average with another (each seed keeps all of them), or for the
runs that are left when others are set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ddetect.scenarios.catalogue import TENSORFLOW, TORCH
from tests.hangbench.ends import ends_of, one_per_cause
from tests.hangbench.table import Told, summary

SEEDS = 3
RIGHT = {
    "launch": 0.98,
    "attach": 0.91,
}  # in each seed; of `launch`: on disk after the end; of `attach`: its answer
ATTACH_RIGHT = 0.93  # over all seeds together: no worse than before the ends were counted
LANES = 2  # the seconds are promised for so many jobs at a time; more of them make it harder, not easier
SECONDS = {  # of `ddetect launch`: (which runs, median or worst) -> at most
    ("named_s", "median"): 4.0,
    ("named_s", "worst"): 7.0,
    ("structural_alarm_s", "worst"): 10.0,
    ("starting_named_s", "worst"): 60.0,
}
NAMED = {key: most for key, most in SECONDS.items() if key[0] == "named_s"}  # of TensorFlow too
PAUSE_MARGIN, PAUSE_SLACK_S = (
    1.5,
    6.0,
)  # of a job that stands for long by itself: so many times that, and this much
TENSORFLOW_SEEDS = 1
TENSORFLOW_RIGHT = 0.95  # of `ddetect launch`, over all seeds together
BUSY_RIGHT = 0.95  # of `ddetect launch`, where every core has something else to do


def broken(run: Mapping[str, Any], scenarios: Iterable[str] = TORCH) -> list[str]:
    """The promises that this run does not keep."""
    wanted = set(scenarios)
    problems = [f"{tool}: {problem}" for tool in RIGHT for problem in _broken_by(tool, run, wanted)]
    attach = [one for one in run["runs"] if one["tool"] == "attach"]
    return [*problems, *(f"attach: {one}" for one in _too_few(attach, ATTACH_RIGHT)), *_not_so_made(run)]


def broken_of_tensorflow(run: Mapping[str, Any], scenarios: Iterable[str] = TENSORFLOW) -> list[str]:
    """The same for TensorFlow's suite, whose promises are made for all seeds together."""
    launch = [one for one in run["runs"] if one["tool"] == "launch"]
    return [
        *_incomplete(launch, set(scenarios), TENSORFLOW_SEEDS),
        *_too_few(launch, TENSORFLOW_RIGHT),
        *_too_slow(launch),
        *_disturbed(run["runs"]),
        *_not_so_made(run),
    ]


def broken_when_busy(run: Mapping[str, Any], scenarios: Iterable[str] = TORCH) -> list[str]:
    """Of a whole seed with both cores kept busy by others; seconds are not promised there."""
    launch = [one for one in run["runs"] if one["tool"] == "launch"]
    idle = [] if run["busy"] else ["the cores were not kept busy"]
    return [
        *idle,
        *_incomplete(launch, set(scenarios), 1),
        *_too_few(launch, BUSY_RIGHT),
        *_disturbed(run["runs"]),
        *_not_so_made(run, None),
    ]


def broken_of_ends(run: Mapping[str, Any], ends: Mapping[str, int] | None = None) -> list[str]:
    """Of the hang of each cause that meets every end: so many of them."""
    wanted = {one.name: len(ends_of(one)) for one in one_per_cause()} if ends is None else ends
    met = Counter(one["scenario"] for one in run["runs"])
    missing = [f"{name} met {met[name]} of {many} ends" for name, many in wanted.items() if met[name] < many]
    return [*missing, *_too_few(run["runs"], RIGHT["launch"]), *_not_so_made(run, None)]


def _broken_by(tool: str, run: Mapping[str, Any], scenarios: set[str]) -> Iterator[str]:
    mine = [one for one in run["runs"] if one["tool"] == tool]
    yield from _incomplete(mine, scenarios, SEEDS)
    for seed in sorted({one["seed"] for one in mine}):
        told = [one for one in mine if one["seed"] == seed]
        yield from (f"seed {seed}: {problem}" for problem in _too_few(told, RIGHT[tool]))
        if tool == "launch":
            yield from (f"seed {seed}: {problem}" for problem in _too_slow(told, SECONDS))
    yield from _disturbed(mine)


def _incomplete(told: list[Told], scenarios: set[str], promised: int) -> Iterator[str]:
    seeds = sorted({one["seed"] for one in told})
    if len(seeds) < promised:
        yield f"{len(seeds)} seeds, promised {promised}"
    for seed in seeds:
        if missing := scenarios - {one["scenario"] for one in told if one["seed"] == seed}:
            yield f"seed {seed} is not the whole suite: {', '.join(sorted(missing))}"


def _too_few(told: list[Told], promised: float) -> Iterator[str]:
    counted = summary(told)
    if counted["right_both"] < promised * counted["hanging"]:
        yield f"right in {counted['right_both']} of {counted['hanging']}, promised {promised:.0%}"


def _disturbed(told: list[Told]) -> Iterator[str]:
    """Healthy jobs that were not left in peace: an alarm, or a folder about what was taken back."""
    for one in told:
        if one["healthy"] and not one["right"] and not one["outcome"]["cannot"]:
            alarm = "alarm" if one["false_alarm"] else "it left a folder, or more"
            why = one["outcome"]["failed"] or alarm
            yield f"{one['tool']}, seed {one['seed']}: {one['scenario']} was not left in peace ({why})"


def _too_slow(told: list[Told], promised: Mapping[tuple[str, str], float] = NAMED) -> Iterator[str]:
    pausing = [one for one in told if _pause_s(one)]
    for one in pausing:
        most = PAUSE_MARGIN * _pause_s(one) + PAUSE_SLACK_S
        if one["seconds_to_name"] is not None and one["seconds_to_name"] > most:
            yield f"{one['scenario']} is named after {one['seconds_to_name']} s, promised {most}"
    counted = summary(one for one in told if not _pause_s(one))
    for (which, what), most in promised.items():
        took = counted[which][what] if counted[which] else None
        if took is None or took > most:
            yield f"{which} {what} is {took} s, promised {most}"
    for one in told:
        took = one["seconds_to_name"]
        if one["alarm"] and not one["healthy"] and (took is None or took < 0):
            yield f"{one['scenario']} has an alarm and no time"


def _pause_s(one: Told) -> float:
    scenario = TORCH.get(one["scenario"]) or TENSORFLOW.get(one["scenario"])
    return scenario.pause_s if scenario is not None else 0.0


def _not_so_made(run: Mapping[str, Any], lanes: int | None = LANES) -> Iterator[str]:
    if lanes is not None and run["lanes"] < lanes:
        yield f"{run['lanes']} job at a time, promised for {lanes}"
    if run["commit"].endswith("+"):
        yield f"commit {run['commit']} is not what was run"


PROMISES = {  # by the name under which a run is published
    "suite": broken,
    "tensorflow": broken_of_tensorflow,
    "busy": broken_when_busy,
    "ends": broken_of_ends,
}
