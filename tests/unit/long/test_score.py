"""What is right about a run of the exam, and what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.long.catalogue import CASES
from tests.long.samples import Sample
from tests.long.score import Seen, score
from tests.long.words import Word, incidents_of

HANG, HEALTHY, TWIN = CASES["steps_45s.hang"], CASES["steps_45s"], CASES["accumulation.twin"]
SUSPECTED = Word(
    560.0,
    1,
    "suspected",
    "hang",
    "user_code",
    (1,),
    (("steps.py", "Layers.forward", 26),),
    0.6,
    False,
    "rank 1 is",
)
CONFIRMED = replace(SUSPECTED, at=803.0, stage="confirmed", confidence=0.97, alarm=True)
LIMIT = {"situation": "nothing moves", "after_s": 300.0, "due_in_s": 240.0, "because": "nothing moves"}


def sample(at: float, alarm: dict[str, Any] | None = None, *, load: float = 1.0) -> Sample:
    return Sample(at, load, {"state": "suspected", "noticed": None, "alarm": alarm})


def hung(*words: Word, **changed: Any) -> Seen:
    """It hangs at 500 s of the clock; 45 s steps, some of them 58 s."""
    samples = [sample(505.0), sample(562.0, LIMIT), sample(700.0, {**LIMIT, "after_s": 999.0}), sample(804.0)]
    return replace(Seen(100.0, 810.0, 500.0, list(words), samples), **changed)


def test_hang_that_is_named_in_time_is_right():
    """The limit is the one that was shown when it was named, not a later one."""
    told = score(HANG, hung(SUSPECTED, CONFIRMED))

    assert told.right
    assert (told.suspected_s, told.suspected_within_s) == (60.0, 1.5 * 58.5 + 6)
    assert (told.alarm_s, told.alarm_within_s, told.situation) == (303.0, 305.0, "nothing moves")


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        (hung(replace(SUSPECTED, at=594.5), CONFIRMED), "suspected_s"),
        (hung(SUSPECTED, replace(CONFIRMED, at=805.5)), "alarm_s"),
        (hung(SUSPECTED, replace(CONFIRMED, ranks=(0,))), "rank_right"),
        (hung(SUSPECTED, replace(CONFIRMED, ranks=(0, 1))), "rank_right"),
        (hung(SUSPECTED, replace(CONFIRMED, lines=(("steps.py", "log_metrics", 32),))), "line_right"),
        (hung(SUSPECTED, replace(CONFIRMED, lines=(("other.py", "forward", 26),))), "line_right"),
        (hung(SUSPECTED, replace(CONFIRMED, cause="gil_held")), "cause_right"),
        (hung(SUSPECTED), "alarm_s"),
        (hung(), "suspected_s"),
        (hung(SUSPECTED, CONFIRMED, left="pid 12"), "left"),
        (hung(SUSPECTED, CONFIRMED, problem="nothing after 900 s"), "failed"),
        (hung(replace(CONFIRMED, at=300.0), SUSPECTED, CONFIRMED), "alarms"),
        (hung(SUSPECTED, CONFIRMED, hung_at=None), "failed"),
    ],
)
def test_hang_is_wrong_if_one_thing_is(seen, what):
    assert not score(HANG, seen).right, what


def test_limit_that_nobody_showed_is_not_kept():
    told = score(
        HANG, hung(SUSPECTED, CONFIRMED, samples=[sample(562.0), Sample(563.0, 1.0, {"state": "x"})])
    )

    assert (told.right, told.situation, told.alarm_within_s) == (False, "not shown", None)


def test_limit_counts_from_when_there_is_one():
    """What works has none, and what is proven is due within ten seconds of the hang."""
    works, proven = (
        {**LIMIT, "situation": "works", "after_s": None},
        {**LIMIT, "situation": "proven", "after_s": 0.0},
    )

    told = score(HANG, hung(SUSPECTED, CONFIRMED, samples=[sample(562.0, works), sample(567.0, proven)]))

    assert (told.situation, told.alarm_within_s) == ("proven", 15.0)


def test_load_is_that_of_the_time_between_hang_and_alarm():
    busy = [
        sample(450.0, load=9.0),
        sample(562.0, LIMIT, load=3.0),
        sample(700.0, load=4.2),
        sample(900.0, load=8.0),
    ]

    told = score(HANG, hung(SUSPECTED, CONFIRMED, samples=busy))

    assert (told.load, told.repeat) == (4.2, True)


def test_suspicion_that_stood_when_it_hung_counts_from_then():
    told = score(HANG, hung(replace(SUSPECTED, at=480.0), CONFIRMED))

    assert told.suspected_s == 0.0


def test_healthy_job_is_right_when_nothing_sure_was_said():
    doubts = [
        replace(SUSPECTED, confidence=0.4),
        replace(SUSPECTED, at=570.0, stage="withdrawn", confidence=0.4),
    ]
    told = score(HEALTHY, Seen(100.0, 800.0, None, [*doubts, *doubts], [], pauses=2))

    assert (told.right, told.alarms, told.suspicions, told.pauses, told.highest) == (True, 0, 2, 2, 0.4)


@pytest.mark.parametrize(
    "changed",
    [
        {"words": [CONFIRMED]},
        {"words": [replace(SUSPECTED, confidence=0.9)]},
        {"replayed": (replace(SUSPECTED, confidence=0.95),)},
        {"problem": "exit code 1"},
        {"left": "pid 7"},
    ],
)
def test_healthy_job_is_wrong_if_one_thing_is(changed):
    assert not score(HEALTHY, replace(Seen(100.0, 800.0, None, [], []), **changed)).right


def test_alarm_about_a_twin_is_measured_by_the_table():
    """Nothing moves but the tracker beside it: patience, though nobody showed a limit."""
    told = [
        score(TWIN, hung(replace(SUSPECTED, at=510.0), replace(CONFIRMED, at=at), samples=[]))
        for at in (534.0, 537.0)
    ]

    assert [one.right for one in told] == [True, False]
    assert told[0].alarm_within_s == 35.0


def test_number_that_is_given_again_is_another_incident():
    again = [
        SUSPECTED,
        replace(SUSPECTED, stage="withdrawn"),
        SUSPECTED,
        CONFIRMED,
        replace(CONFIRMED, incident=2),
    ]

    assert incidents_of(again) == 3
