"""What we promise at real durations, and where a run of the exam does not keep it. Pure.

Enters: a run of the exam. Leaves: a sentence for each promise that is broken. Never here: a promise on average.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.long.catalogue import HANGS, HEALTHY, TWINS
from tests.long.score import BUSY, TOO_SURE

LEAST = {"healthy": 24, "hang": 10}
LEAST_TENSORFLOW = 6  # of the healthy ones
LANES = 10
Told = Mapping[str, Any]


def broken(run: Told, names: Iterable[str] | None = None) -> list[str]:
    """The promises that a run of healthy programs and hangs does not keep; `names`: all that there should be."""
    wanted = {case.name for case in (*HEALTHY, *HANGS)} if names is None else set(names)
    of = {suite: [one for one in run["runs"] if one["suite"] == suite] for suite in LEAST}
    few = [
        f"{len(told)} {suite} programs, promised {LEAST[suite]}"
        for suite, told in of.items()
        if len(told) < LEAST[suite]
    ]
    tensorflow = sum(one["name"].startswith("tf_") for one in of["healthy"])
    if tensorflow < LEAST_TENSORFLOW:
        few.append(f"{tensorflow} healthy programs of TensorFlow, promised {LEAST_TENSORFLOW}")
    problems = [problem for one in of["healthy"] for problem in _healthy(one)]
    problems += [problem for one in of["hang"] for problem in _hang(one)]
    return [*few, *_incomplete(run, wanted), *problems, *_not_so_made(run)]


def broken_by_twins(run: Told, names: Iterable[str] | None = None) -> list[str]:
    """The same of the twins: every healthy kind has one, and its alarm comes in time."""
    wanted = {case.name for case in TWINS} if names is None else set(names)
    problems = [problem for one in run["runs"] for problem in _twin(one)]
    return [*_incomplete(run, wanted), *problems, *_not_so_made(run)]


def _healthy(one: Told) -> Iterator[str]:
    if one["alarms"]:
        yield f"{one['name']}: {one['alarms']} alarms about a healthy job"
    if one["highest"] >= TOO_SURE:
        yield f"{one['name']}: {one['highest']:.0%} sure of what was not so, promised less than {TOO_SURE:.0%}"
    yield from _failed(one)


def _hang(one: Told) -> Iterator[str]:
    for what in ("rank", "line", "cause"):
        if not one[f"{what}_right"]:
            yield f"{one['name']}: the {what} is not right"
    yield from _late(one, "suspected")
    if one["alarm_within_s"] is None:
        yield f"{one['name']}: no limit was shown when it was named"
    else:
        yield from _late(one, "alarm")
    if one["load"] > BUSY:
        yield f"{one['name']}: timed at a load of {one['load']}, promised at most {BUSY:.0f}"
    yield from _before(one)
    yield from _failed(one)


def _twin(one: Told) -> Iterator[str]:
    yield from _late(one, "alarm")
    yield from _before(one)
    yield from _failed(one)


def _late(one: Told, what: str) -> Iterator[str]:
    took_s, within_s = one[f"{what}_s"], one[f"{what}_within_s"]
    if took_s is None:
        yield f"{one['name']}: no {'alarm' if what == 'alarm' else 'suspicion'}"
    elif within_s is not None and took_s > within_s:
        yield f"{one['name']}: {what} after {took_s} s, promised {within_s:.0f}"


def _before(one: Told) -> Iterator[str]:
    if one["alarms"]:
        yield f"{one['name']}: {one['alarms']} alarms before it hung"


def _failed(one: Told) -> Iterator[str]:
    if one["failed"]:
        yield f"{one['name']} failed: {one['failed'][:100]}"
    if one["left"]:
        yield f"{one['name']} left something behind: {one['left'][:100]}"


def _incomplete(run: Told, wanted: set[str]) -> Iterator[str]:
    if missing := wanted - {one["name"] for one in run["runs"]}:
        yield f"it is not the whole exam: {', '.join(sorted(missing))}"


def _not_so_made(run: Told) -> Iterator[str]:
    if run["shorter"] != 1 or run["patience_s"] is not None:
        yield "a trial: made shorter, or not at default settings"
    if run["lanes"] > LANES:
        yield f"{run['lanes']} jobs at a time, promised at most {LANES}"
    if run["commit"].endswith("+"):
        yield f"commit {run['commit']} is not what was run"


PROMISES = {"long": broken, "twins": broken_by_twins}  # by the suite of a run
