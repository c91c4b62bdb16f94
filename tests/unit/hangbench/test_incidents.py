"""What the bench takes from verdict.json, of the incident and of those beside it; `undecided` for what it is."""

from __future__ import annotations

from typing import Any

import pytest

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.hangbench.incidents import (
    beside,
    clock_doubt,
    lanes_of,
    last_of,
    left_open_by,
    lines_of,
    other_attempts,
    outcome_of,
)
from tests.hangbench.tools.ddetect_attach import answer


def verdict(**changed: Any) -> dict[str, Any]:
    return {
        "status": "hang", "cause": "user_code", "culprits": [{"rank": 1}, {"rank": 2}], "incident": 1,
        "judged_at_unix_ns": 10 * 10**9, "confirmed_at_unix_ns": 20 * 10**9, "last_progress_unix_ns": 8 * 10**9,
        "confidence": 0.9, "summary": "words", **changed,
    }  # fmt: skip


def test_an_alarm_is_counted_as_it_stands_on_disk():
    """Ranks, cause and both times."""
    outcome = outcome_of(verdict(), 8.5, suspicions=1, named_at=10.0)

    assert (outcome.culprits, outcome.cause, outcome.alarm_at) == ((1, 2), "user_code", 20.0)
    assert (outcome.named_at, outcome.last_progress, outcome.suspicions, outcome.doubt) == (10.0, 8.5, 1, "")


def test_a_clock_that_saw_the_job_move_where_ddetect_did_not_is_doubted():
    """It would make ddetect look faster than it is."""
    assert "2.5 s" in clock_doubt(verdict(), 10.5)
    assert clock_doubt(verdict(), 9.9) == clock_doubt(verdict(), None) == ""


def test_time_counts_from_the_earlier_clock_where_ours_is_doubted():
    """A culprit cannot be named before the job stood still, and the doubt is not in our favour."""
    outcome = outcome_of(verdict(), 12.0, suspicions=0)

    assert (outcome.last_progress, bool(outcome.doubt)) == (8.0, True)


@pytest.mark.parametrize(("status", "alarm_at"), [("hang", 7.0), ("healthy", None), ("undecided", None)])
def test_only_a_hang_is_an_alarm_of_a_tool_that_was_asked(status, alarm_at):
    """The first answer counts: `healthy` is a miss, `undecided` is no alarm."""
    outcome = answer(verdict(status=status), 5.0, 7.0)

    assert (outcome.alarm_at, outcome.named_at, outcome.last_progress) == (alarm_at, alarm_at, 5.0)


FIRST = {"attempt": 0, "cause": "python_exception", "culprits": [{"rank": 0}]}
LAST = {"attempt": 1, "cause": "user_code", "culprits": [{"rank": 2}]}


@pytest.mark.parametrize(
    ("alarms", "well"),
    [
        ([FIRST, LAST], True),
        ([LAST], False),
        ([{**FIRST, "culprits": [{"rank": 1}]}, LAST], False),
        ([{**FIRST, "cause": "oom_killed"}, LAST], False),
        ([FIRST, {**LAST, "attempt": 0}], False),
        ([FIRST, FIRST, LAST], False),
    ],
)
def test_each_attempt_has_one_alarm_and_its_own_truth(alarms, well):
    """The last one is scored; those before it are not free to say anything."""
    problem = other_attempts(SCENARIOS["elastic_restart"], Params(rank=2, world_size=3), alarms)

    assert (problem == "") is well


def test_replica_line_and_what_is_left_open_are_read_from_the_verdict():
    """A replica of rank 0; a file without its folder; members of which several may be of one rank."""
    where = {"file": "/somewhere/train.py", "function": "read", "line": 7}
    named = verdict(culprits=[{"rank": 0, "lane": 1, "where": where}, {"rank": 2, "where": None}])
    unsure = verdict(culprits=[], open={"members": "0,2,2/1", "causes": ["data_loading"]})

    assert (lanes_of(named), lines_of(named)) == ((1, None), (("train.py", "read", 7),))
    assert (left_open_by(unsure), left_open_by(named)) == ((0, 2), ())


OVER = [
    verdict(incident=0, cause="file_io", culprits=[{"rank": 0}]),
    verdict(incident=1, status="stopped", cause="killed_by_signal"),
]


def test_answer_after_the_end_is_that_of_the_same_incident():
    """Another incident that came with the end is not it; one that was taken back is nothing."""
    assert last_of(verdict(), OVER) == OVER[1]
    assert last_of(verdict(incident=3), OVER) == {}
    assert outcome_of({}, None, ended_by="SIGTERM").status is None


def test_a_suspicion_that_was_never_confirmed_is_no_alarm():
    """torch's timeout may come first; what it says counts all the same."""
    outcome = outcome_of(verdict(confirmed_at_unix_ns=None), None)

    assert (outcome.alarm_at, outcome.cause) == (None, "user_code")


def test_what_other_folders_say_falsely_is_told():
    """The incident itself is not beside itself; the truth may be told twice, and an earlier attempt has its own."""
    params = Params(rank=2, world_size=3)
    scenario = SCENARIOS["elastic_restart"]
    earlier = verdict(incident=0, status="stopped", cause="python_exception", culprits=[{"rank": 0}])
    final, again = (verdict(incident=i, culprits=[{"rank": 2}]) for i in (1, 2))
    killed = verdict(incident=3, status="stopped", cause="killed_by_signal")

    assert beside(scenario, params, final, [earlier, final, again]) == ""
    assert beside(scenario, params, final, [earlier, final, killed]) == "stopped/killed_by_signal [1, 2]"
    assert beside(scenario, params, killed, [earlier, final, killed]) == ""
