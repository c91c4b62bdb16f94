"""The README claims what a published run shows, and a published suite keeps our promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddetect.scenarios.catalogue import TORCH
from tests.hangbench import publish
from tests.hangbench.promises import broken, broken_of_ends, broken_of_tensorflow, broken_when_busy
from tests.hangbench.publish import README, TABLES, between, published


@pytest.mark.parametrize("name", [name for name in TABLES if (publish.PUBLISHED / f"{name}.json").exists()])
def test_readme_shows_the_published_run(name):
    """Nobody edits a figure by hand."""
    assert between(name, README.read_text()) == TABLES[name](published(name))


def test_published_suite_keeps_every_promise():
    """Over the scenarios of its day: one that is written later waits for the next run."""
    run = published("suite")
    if "busy" not in run:
        pytest.skip("the suite was published before the ends of jobs were scored: run it anew and publish it")
    healthy = {one["scenario"]: one["healthy"] for one in run["runs"]}

    assert broken(run, healthy) == []
    assert len(healthy) - sum(healthy.values()) >= HANGING
    assert sum(healthy.values()) >= HEALTHY


def test_suite_that_breaks_a_promise_is_not_published(tmp_path: Path, monkeypatch):
    """The README keeps the run before it."""
    monkeypatch.setattr(publish, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(publish, "README", tmp_path / "README.md")
    runs = suite()["runs"]  # not one of the real scenarios
    (tmp_path / "results.json").write_text(
        json.dumps({"commit": "abc", "lanes": 2, "planned": len(runs), "runs": runs})
    )

    with pytest.raises(SystemExit, match="seed 1 is not the whole suite"):
        publish.publish("suite", tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


HANGING, HEALTHY = 45, 12  # so many scenarios make a suite
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
    return {
        "commit": "abc",
        "lanes": 2,
        "busy": False,
        "runs": [*runs, {**told("launch", "2", "one more"), **changed}],
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"seconds_to_name": 7.4}, "named_s worst"),
        ({"seconds_to_alarm": 10.4}, "structural_alarm_s worst"),
        ({"seconds_to_name": 60.4, "learned": False}, "starting_named_s worst"),
        (
            {"healthy": True, "right": False, "scenario": "healthy_x"},
            "healthy_x was not left in peace (it left a folder, or more)",
        ),
        (
            {"healthy": True, "right": False, "false_alarm": True, "scenario": "healthy_x"},
            "healthy_x was not left in peace (alarm)",
        ),
        ({"seconds_to_name": None}, "no time"),
        ({"seconds_to_name": -33.0}, "no time"),
        ({"seed": "4"}, "not the whole suite"),
    ],
)
def test_a_promise_that_is_broken_once_is_named(changed, words):
    """Each seed keeps all of them."""
    problems = broken(suite(**changed), dict.fromkeys(NAMES))

    assert any(words in problem for problem in problems) if words else problems == []


def test_less_than_the_promised_share_is_named():
    """One wrong answer of 46 is too much already for 98 %, and not for 91 %."""
    run = suite(right=False)

    assert [problem.split(":")[0] for problem in broken(run, dict.fromkeys(NAMES))] == ["launch"]


def test_promises_about_tensorflow_are_made_for_all_seeds_together():
    """Three wrong answers in one seed are too many for torch's suite, and not for this one; an alarm always is."""
    run = suite()
    few = [{**one, "right": one["scenario"] not in NAMES[:3] or one["seed"] != "1"} for one in run["runs"]]
    many = [{**one, "right": one["scenario"] not in NAMES[:5]} for one in run["runs"]]
    loud = [{**one, "right": one["scenario"] != NAMES[-1]} for one in run["runs"]]

    told = [broken_of_tensorflow({**run, "runs": runs}, NAMES) for runs in (few, many, loud)]

    assert told[0] == []
    assert any("promised 95%" in problem for problem in told[1])
    assert any("was not left in peace" in problem for problem in told[2])


def test_slow_or_missing_runs_of_tensorflow_are_named():
    """The median of all seeds, and every scenario in each."""
    run = suite()
    slow = {**run, "runs": [{**one, "seconds_to_name": 7.0} for one in run["runs"]]}
    fewer = {**run, "runs": [one for one in run["runs"] if one["seed"] != "3"]}

    assert "named_s median is 7.0 s, promised 4.0" in broken_of_tensorflow(slow, NAMES)
    assert "2 seeds, promised 3" in " ".join(broken(fewer, NAMES))
    assert "0 seeds, promised 1" in broken_of_tensorflow({**run, "runs": []}, NAMES)
    assert broken_of_tensorflow(fewer, NAMES) == []
    assert "seed 1 is not the whole suite: other" in broken_of_tensorflow(run, [*NAMES, "other"])


def test_answers_of_attach_are_no_worse_than_before_over_all_seeds():
    """Four wrong ones of 46 in each seed are allowed in one seed, and not in all of them."""
    run = suite()
    wrong = [one for one in run["runs"] if one["tool"] == "attach" and one["scenario"] in NAMES[1:5]]

    one_seed = {
        **run,
        "runs": [{**one, "right": one not in wrong or one["seed"] != "1"} for one in run["runs"]],
    }
    every = {**run, "runs": [{**one, "right": one not in wrong} for one in run["runs"]]}

    assert broken(one_seed, NAMES) == []
    assert broken(every, NAMES) == ["attach: right in 126 of 138, promised 93%"]


def test_seconds_are_promised_for_two_jobs_at_a_time_or_more():
    """One that has the machine to itself is easier."""
    assert broken({**suite(), "lanes": 4}, NAMES) == []
    assert broken({**suite(), "lanes": 1}, NAMES) == ["1 job at a time, promised for 2"]


def test_job_with_a_pause_of_its_own_is_named_after_one_and_a_half_of_it():
    """What it does for ten seconds while it is well is no news before that."""
    name = next(name for name, one in TORCH.items() if one.pause_s)
    most = 1.5 * TORCH[name].pause_s + 6
    runs = [suite(scenario=name, seconds_to_name=seconds) for seconds in (most, most + 0.1)]

    told = [broken(run, dict.fromkeys(NAMES)) for run in runs]

    assert told == [[], [f"launch: seed 2: {name} is named after {most + 0.1} s, promised {most}"]]


def test_parts_of_a_suite_are_published_as_one_if_they_are_of_one_commit(tmp_path: Path):
    """Seeds and tools may be run one after the other; the fewest jobs at a time count for the promise."""
    whole = {**suite(), "command": "a", "machine": "m", "planned": 0, "tools": {}}
    parts = [
        {
            **whole,
            "lanes": 4,
            "command": "a",
            "runs": [one for one in whole["runs"] if one["tool"] == "launch"],
        },
        {
            **whole,
            "lanes": 3,
            "command": "b",
            "runs": [one for one in whole["runs"] if one["tool"] == "attach"],
        },
    ]
    tool = {"name": "x", "version": "1", "settings": "s", "tells_cause": True, "suspects": True}
    for part, name in zip(parts, ("launch", "attach"), strict=True):
        part["tools"] = {name: tool}
        part["planned"] = len(part["runs"])

    run = publish.joined(parts)

    assert sorted(map(json.dumps, run["runs"])) == sorted(map(json.dumps, whole["runs"]))
    assert (run["lanes"], run["command"], set(run["tools"])) == (3, "a`, `b", {"launch", "attach"})
    assert run["tools"]["attach"]["right_both"] == 3 * 46
    with pytest.raises(SystemExit, match="commit"):
        publish.joined([parts[0], {**parts[1], "commit": "other"}])


def test_a_busy_seed_promises_less_and_says_whether_it_was_busy():
    """Two wrong ones of 46 are allowed, three are not; no alarm about a healthy job is, as ever."""
    first = {**suite(), "busy": True, "lanes": 3}
    first["runs"] = [one for one in first["runs"] if (one["tool"], one["seed"]) == ("launch", "1")]

    def wrong(count: int) -> dict[str, Any]:
        return {
            **first,
            "runs": [{**one, "right": one["scenario"] not in NAMES[:count]} for one in first["runs"]],
        }

    assert broken_when_busy(wrong(2), NAMES) == []
    assert broken_when_busy(wrong(3), NAMES) == ["right in 43 of 46, promised 95%"]
    assert "the cores were not kept busy" in broken_when_busy({**first, "busy": False}, NAMES)
    loud = {**first, "runs": [{**one, "right": not one["healthy"]} for one in first["runs"]]}
    assert len(broken_when_busy(loud, NAMES)) == sum(one["healthy"] for one in first["runs"])


def test_every_hang_meets_every_end():
    """One that is missing is named, and so are too many wrong ones."""
    run = {**suite(), "runs": [told("launch", "1", name) for name in ("a", "a", "b")]}

    assert broken_of_ends(run, {"a": 2, "b": 1}) == []
    assert broken_of_ends(run, {"a": 2, "b": 2}) == ["b met 1 of 2 ends"]
    run["runs"][0]["right"] = False
    assert broken_of_ends(run, {"a": 2, "b": 1}) == ["right in 2 of 3, promised 98%"]
