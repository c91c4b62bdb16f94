"""The README claims nothing until a run is published, and then that run; a published suite keeps our promises."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hangbench.promises import broken
from tests.hangbench.publish import README, TABLES, between, published, shown


@pytest.mark.parametrize("name", TABLES)
def test_readme_shows_the_published_run_and_else_that_there_is_none(name):
    """Nobody edits a figure by hand."""
    assert between(name, README.read_text()) == shown(name, published(name))


def test_published_suite_keeps_every_promise():
    """There is nothing to keep before it is published; a run that breaks one is not publishable."""
    run = published("suite")

    assert run is None or broken(run) == []


NAMES = [f"hangs-{i}" for i in range(46)] + [f"healthy-{i}" for i in range(12)]


def told(tool: str, seed: str, name: str, *, healthy: bool = False, **changed: Any) -> dict[str, Any]:
    outcome = {"cannot": "", "failed": "", "doubt": "", "evidence": "x", "asked": False, "suspicions": 0}
    usual = {
        "tool": tool, "seed": seed, "scenario": name, "healthy": healthy, "learned": True, "structural": True,
        "alarm": not healthy, "right": True, "right_culprit": True, "right_cause": True, "false_alarm": False,
        "seconds_to_name": 3.0, "seconds_to_alarm": 6.0, "outcome": outcome,
    }  # fmt: skip
    return {**usual, **changed}


def suite(**changed: Any) -> dict[str, Any]:
    """Three seeds as good as they can be, but for one run of `launch`."""
    runs = []
    for seed in "123":
        for tool in ("launch", "attach"):
            runs += [told(tool, seed, name, healthy=name.startswith("healthy")) for name in NAMES]
            runs[-len(NAMES)]["learned"] = False
    return {"commit": "abc", "runs": [*runs, {**told("launch", "2", "one more"), **changed}]}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"seconds_to_name": 10.4}, "named_s worst"),
        ({"seconds_to_alarm": 10.4}, "structural_alarm_s worst"),
        ({"seconds_to_name": 60.4, "learned": False}, "starting_named_s worst"),
        (
            {"healthy": True, "right": False, "scenario": "healthy_x"},
            "healthy_x was not left in peace (alarm)",
        ),
        ({"seconds_to_name": None}, "no time"),
        ({"seed": "4"}, "not the whole suite"),
    ],
)
def test_a_promise_that_is_broken_once_is_named(changed, words):
    """Each seed keeps all of them."""
    problems = broken(suite(**changed), dict.fromkeys(NAMES))

    assert any(words in problem for problem in problems) if words else problems == []


def test_less_than_the_promised_share_is_named():
    """One wrong answer of 46 is too much already for 98 %, and not for 85 %."""
    run = suite(right=False)

    assert [problem.split(":")[0] for problem in broken(run, dict.fromkeys(NAMES))] == ["launch"]
