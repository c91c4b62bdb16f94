"""The README shows the exam that was published, and what is published keeps our promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.long import publish
from tests.long.promises import PROMISES, broken, broken_by_twins
from tests.long.publish import README, between, published, shown

NOTHING = (
    "nothing is published yet: run `make long` and `make long-twins`, then `python -m tests.long.publish`"
)


def test_readme_shows_what_is_published():
    """Nobody edits a figure by hand; and while nothing is published the README says so."""
    assert between(README.read_text()) == shown(published())


@pytest.mark.parametrize("suite", PROMISES)
def test_published_exam_keeps_every_promise(suite):
    """Over the programs of its day: one that is written later waits for the next run."""
    if suite not in published():
        pytest.skip(f"{suite}: {NOTHING}")
    run = published()[suite]

    assert PROMISES[suite](run, [one["name"] for one in run["runs"]]) == []


def told(name: str, suite: str = "healthy", **changed: Any) -> dict[str, Any]:
    usual = {
        "name": name, "suite": suite, "kind": name, "noise": "", "minutes": 9.0, "right": True, "alarms": 0,
        "suspicions": 0, "pauses": 0, "highest": 0.5, "usual_s": 45.0, "says": "", "failed": "", "left": "",
        "suspected_s": 50.0, "suspected_within_s": 73.5, "alarm_s": 302.0, "alarm_within_s": 305.0,
        "situation": "nothing moves", "rank_right": True, "line_right": True, "cause_right": True, "load": 1.5,
        "repeat": False, "repeated": False,
    }  # fmt: skip
    return {**usual, **changed}


HEALTHY = [*(f"tf_{i}" for i in range(6)), *(f"well-{i}" for i in range(18))]
HANGS = [f"hang-{i}" for i in range(10)]


def exam(**changed: Any) -> dict[str, Any]:
    """As good as it can be, but for one more run."""
    runs = [*(told(name) for name in HEALTHY), *(told(name, "hang") for name in HANGS)]
    made = {"suite": "long", "command": "c", "commit": "abc", "machine": "m", "date": "d", "minutes": 61.0}
    more = [told("one more", **changed)] if changed else []
    return {**made, "lanes": 10, "shorter": 1.0, "patience_s": None, "planned": 34, "runs": [*runs, *more]}


NAMES = [*HEALTHY, *HANGS]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"alarms": 1}, "1 alarms about a healthy job"),
        ({"highest": 0.9}, "90% sure of what was not so"),
        ({"failed": "exit code 1"}, "one more failed"),
        ({"left": "pid 7"}, "one more left something behind"),
        ({"suite": "hang", "rank_right": False}, "the rank is not right"),
        ({"suite": "hang", "line_right": False}, "the line is not right"),
        ({"suite": "hang", "suspected_s": 74.0}, "suspected after 74.0 s, promised 74"),
        ({"suite": "hang", "suspected_s": None}, "no suspicion"),
        ({"suite": "hang", "alarm_s": 306.0}, "alarm after 306.0 s, promised 305"),
        ({"suite": "hang", "alarm_within_s": None}, "no limit was shown"),
        ({"suite": "hang", "load": 4.3}, "timed at a load of 4.3"),
        ({"suite": "hang", "alarms": 2}, "2 alarms before it hung"),
    ],
)
def test_a_promise_that_is_broken_once_is_named(changed, words):
    problems = broken(exam(**changed), NAMES)

    assert any(words in problem for problem in problems) if words else problems == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"lanes": 11}, "11 jobs at a time"),
        ({"shorter": 2.0}, "a trial"),
        ({"patience_s": 60.0}, "a trial"),
        ({"commit": "abc+"}, "is not what was run"),
        ({"runs": exam()["runs"][1:]}, "5 healthy programs of TensorFlow"),
        ({"runs": exam()["runs"][:-1]}, "9 hang programs, promised 10"),
        ({"runs": exam()["runs"][:-1]}, "it is not the whole exam: hang-9"),
    ],
)
def test_exam_that_was_not_made_as_promised_is_named(changed, words):
    assert any(words in problem for problem in broken({**exam(), **changed}, NAMES))


def test_alarm_about_a_twin_comes_in_time():
    twins = [told("a", "twin"), told("b", "twin", alarm_s=None), told("c", "twin", alarm_s=400.0)]

    problems = broken_by_twins({**exam(), "suite": "twins", "runs": twins}, "abc")

    assert problems == ["b: no alarm", "c: alarm after 400.0 s, promised 305"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(publish, "PUBLISHED", tmp_path / "published.json")
    monkeypatch.setattr(publish, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text("before\n<!-- long -->\nold\n<!-- end -->\nafter\n")
    return tmp_path


def test_exam_that_breaks_a_promise_is_not_published(elsewhere):
    """The README keeps the one before it."""
    (elsewhere / "results.json").write_text(json.dumps(exam()))

    with pytest.raises(SystemExit, match="it is not the whole exam"):
        publish.publish(elsewhere)

    assert "old" in (elsewhere / "README.md").read_text()


def test_published_suites_stand_beside_each_other(elsewhere, monkeypatch):
    """Each is replaced by its next run, and never by the other's; no folder of this machine is kept."""
    monkeypatch.setattr(publish, "PROMISES", {"long": lambda run: [], "twins": lambda run: []})
    long, twins = elsewhere / "a", elsewhere / "b"
    for out, run in (
        (long, {**exam(), "planned": 34}),
        (
            twins,
            {
                **exam(),
                "suite": "twins",
                "planned": 1,
                "runs": [told("t", "twin", says="in /home/me/train.py")],
            },
        ),
    ):
        out.mkdir()
        (out / "results.json").write_text(json.dumps(run))
    publish.publish(long)
    publish.publish(twins)

    readme = (elsewhere / "README.md").read_text()
    assert sorted(publish.published()) == ["long", "twins"]
    assert between(readme) == shown(publish.published())
    assert readme.startswith("before\n<!-- long -->\n**24 healthy programs: 0 with an alarm")
    assert "1 twins" in readme
    assert "/home" not in (elsewhere / "published.json").read_text()
