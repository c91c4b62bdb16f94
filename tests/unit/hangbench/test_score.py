"""What an outcome is worth: exactly the struck ranks, the cause of the truth, and silence about the healthy."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.hangbench.outcome import Outcome, Score, score
from tests.hangbench.table import ends_markdown, results, seeds_markdown, table_markdown, tensorflow_markdown
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


def test_replica_counts_where_the_truth_has_one():
    """The right process and the wrong replica is a wrong answer."""
    params = Params(rank=1, world_size=3)
    scenario = SCENARIOS["tf_replica_eager"]

    right, wrong, nobody = (
        score("tool", "1", scenario, params, replace(said((0,)), lanes=lanes))
        for lanes in ((1,), (2,), (None,))
    )

    assert (right.right, wrong.right, nobody.right) == (True, False, False)
    assert not wrong.right_culprit


@pytest.mark.parametrize(
    ("status", "culprits", "left_open", "right"),
    [
        ("undecided", (), (0, 1), True),
        ("undecided", (), (0,), False),
        ("undecided", (1,), (1,), False),
        ("hang", (), (0, 1), False),
    ],
)
def test_undecided_is_right_where_nobody_can_tell(status, culprits, left_open, right):
    """If it names nobody and leaves the struck one open; and it is no alarm."""
    outcome = Outcome(status=status, cause=None, culprits=culprits, left_open=left_open)

    told = scored("tf_starved_worker", outcome)

    assert (told.right, told.alarm) == (right, False)


def test_what_a_healthy_job_may_be_told_is_no_false_alarm():
    """A first trace that takes long is building, and whoever says so is not wrong."""
    assert scored("tf_slow_trace", said((), "building")).right
    assert scored("tf_slow_trace", said((), "user_code")).false_alarm
    assert scored("tf_retracing", said((), "building")).false_alarm


def test_line_and_what_was_said_while_it_hung_are_told_beside_the_score():
    """Neither makes an answer right or wrong."""
    scenario = SCENARIOS["tf_user_sleep"]
    (line,) = scenario.lines
    place = ("user_sleep.py", "ask_feature_store", line)
    good = replace(said((1,)), lines=(place,), alive=("hang", "user_code", (1,)))
    bad = replace(good, lines=(("user_sleep.py", "main", line),), alive=("stopped", "killed_by_signal", (1,)))

    told = [scored("tf_user_sleep", outcome) for outcome in (good, bad, said((1,)))]

    assert [one.right_line for one in told] == [True, False, False]
    assert [one.right_alive for one in told] == [True, False, None]
    assert [one.right for one in told] == [True, True, True]


def ended(outcome: Outcome, by: str = "SIGTERM", **changed: Any) -> Outcome:
    return replace(outcome, ended_by=by, alive=("hang", "user_code", (1,)), **changed)


@pytest.mark.parametrize(
    ("changed", "at_end"),
    [
        ({}, True),
        ({"status": "stopped", "cause": "killed_by_signal"}, False),
        ({"beside": "stopped/killed_by_signal [2]"}, False),
        ({"status": None, "cause": None, "culprits": None, "alarm_at": None}, False),
        ({"alarm_at": None}, True),  # torch's timeout came before ddetect was sure
    ],
)
def test_what_is_on_disk_after_the_end_counts(changed, at_end):
    """However right it was before; and what stands in a folder beside it counts as well."""
    told = scored("user_sleep", ended(said((1,)), **changed))

    assert (told.right, told.right_at_end, told.right_alive) == (at_end, at_end, True)


def test_what_is_left_behind_makes_a_run_wrong_and_not_the_answer():
    """A process or a run directory that outlives the job is a miss of its own."""
    told = scored("user_sleep", ended(said((1,)), left="17 (sleeping) python -m ddetect agent"))

    assert (told.right, told.right_at_end) == (False, True)
    assert not scored("healthy", Outcome(left="run/ddetect-0/job")).right


def test_a_folder_about_a_healthy_job_makes_it_wrong_though_nobody_was_alarmed():
    """What is taken back leaves a row among the pauses, and no folder."""
    told = scored("healthy", Outcome(suspicions=1))

    assert (told.right, told.false_alarm) == (False, False)
    assert scored("tf_slow_trace", replace(said((), "building"), suspicions=1)).right


ENDS = [("SIGTERM", "hang"), ("--on-hang stop", "hang"), ("--on-hang stop", "stopped")]
MADE = {"command": "x", "commit": "abc", "machine": "m", "lanes": 1}


def after_ends() -> dict[str, Any]:
    tool = Tool("ddetect launch", lambda: "1", "usual", run=lambda *_: Outcome())
    told = [scored("tf_user_sleep", ended(said((1,)), by, status=status)) for by, status in ENDS]
    told[0] = scored("tf_user_sleep", ended(said((1,)), left="17 tail"))
    return results(MADE, {"tool": tool}, [asdict(one) for one in told])


@pytest.mark.parametrize("table", [tensorflow_markdown, seeds_markdown, ends_markdown])
def test_tables_show_each_end_with_its_own_count(table):
    """Runs, right while it hung, right after the end, left behind."""
    text = table(after_ends())

    assert "| --on-hang stop | 2 | 2/2 | 1/2 | 0 |" in text
    assert "| SIGTERM | 1 | 1/1 | 1/1 | 1 |" in text


def test_table_of_ends_says_what_became_of_each_hang():
    """One cell per hang and end."""
    text = ends_markdown(after_ends())

    assert "| tf_user_sleep: hang/user_code [1] | left something behind | stopped/user_code [1] |" in text


def test_table_of_a_run_that_did_not_count_ends_has_none():
    """As the suite was published before."""
    run = after_ends()
    for one in run["runs"]:
        del one["right_alive"]

    assert "ended by" not in seeds_markdown(run)
