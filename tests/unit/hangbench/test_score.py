"""What an outcome is worth: exactly the struck ranks, the cause of the truth, and silence about the healthy."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.hangbench.outcome import Outcome, Score, score
from tests.hangbench.table import results, table_markdown
from tests.hangbench.tools.tool import Tool

PARAMS = Params(rank=1, world_size=3)


def scored(name: str, outcome: Outcome) -> Score:
    return score("tool", "1", SCENARIOS[name], PARAMS, outcome)


def said(culprits: tuple[int, ...], cause: str = "user_code") -> Outcome:
    return Outcome(
        alarm_at=110.0, named_at=104.0, last_progress=100.0, culprits=culprits, status="hang", cause=cause
    )


@pytest.mark.parametrize(
    ("culprits", "cause", "right"),
    [
        ((1,), "user_code", (True, True, True)),
        ((1,), "file_io", (True, False, False)),
        ((0,), "user_code", (False, True, False)),
        ((0, 1), "user_code", (False, True, False)),
        ((), "user_code", (False, True, False)),
    ],
)
def test_only_the_struck_ranks_and_their_cause_are_right(culprits, cause, right):
    """Naming one more is as wrong as naming another."""
    told = scored("user_sleep", said(culprits, cause))

    assert (told.right_culprit, told.right_cause, told.right) == right
    assert (told.seconds_to_name, told.seconds_to_alarm) == (4.0, 10.0)


def test_silence_is_wrong_about_a_hang_and_right_about_a_healthy_job():
    """An alarm about a healthy job is a false one, whatever it names."""
    assert not scored("user_sleep", Outcome()).right
    assert scored("healthy", Outcome()).right
    false = scored("healthy", said(()))
    assert (false.right, false.false_alarm, false.right_culprit) == (False, True, False)


@pytest.mark.parametrize("culprits", [None, ()])
def test_naming_nobody_is_right_where_nobody_is_at_fault(culprits):
    """A network that is down is nobody's rank; but something has to be said."""
    said_so = Outcome(alarm_at=1.0, culprits=culprits, status="hang", cause="all_entered_none_left")

    assert scored("network_down", said_so).right
    assert not scored("network_down", Outcome(culprits=culprits)).right_culprit


def test_undecided_is_no_alarm_about_a_hang_and_a_false_one_about_a_healthy_job():
    """It names nobody, also where nobody is at fault."""
    undecided = Outcome(alarm_at=1.0, culprits=(), status="undecided")

    told = scored("network_down", undecided)
    assert (told.alarm, told.right_culprit, told.right) == (False, False, False)
    assert scored("healthy", undecided).false_alarm


def test_what_failed_or_could_not_run_is_never_right():
    """Silence of a tool that broke, or of a job that did not end well, is no silence."""
    assert not scored("healthy", Outcome(failed="exit code 1")).right
    assert not scored("healthy", Outcome(cannot="no optimizer")).right
    assert not scored("user_sleep", replace(said((1,)), failed="left behind: 17")).right


def test_table_counts_each_tool_over_all_runs():
    """What a tool cannot run counts among the hangs it was silent about, and not among the healthy."""
    told = [
        scored("user_sleep", said((1,))),
        scored("user_spin", said((0,))),
        scored("file_flock", Outcome(cannot="needs an optimizer")),
        scored("healthy", said(())),
        scored("healthy_spikes", Outcome(suspicions=2, failed="exit code 1")),
        scored("healthy_join", Outcome(cannot="needs an optimizer")),
    ]

    row = "2/3 | 2/3 | 1/3 | 2/3 | 33% (1/3) | 4.0 (4.0 of 2) | 10.0 (10.0 of 2) | 0/3 | 1/2 | 2 | 1 |"
    assert f"| T 1 | {row}" in table_of(told, tells_cause=True)


def test_table_shows_no_causes_of_a_tool_without_words_for_them_and_equal_times_once():
    """A tool that is asked names when it alarms."""
    at_once = Outcome(alarm_at=104.0, named_at=104.0, last_progress=100.0, culprits=(1,), asked=True)

    told = [scored("user_sleep", at_once), scored("healthy", Outcome(asked=True))]
    row = "1/1 | 1/1 when asked | 1/1 | - | - | 4.0 (4.0 of 1) | same | 0/1 | - | - | 0 |"
    assert f"| T 1 | {row}" in table_of(told, tells_cause=False)


def table_of(told: list[Score], *, tells_cause: bool) -> str:
    tool = Tool("T", lambda: "1", "s", lambda *_: Outcome(), tells_cause=tells_cause, suspects=tells_cause)
    made = {"command": "x", "commit": "c", "machine": "m", "lanes": 1}
    return table_markdown(results(made, {"tool": tool}, [asdict(one) for one in told]))
