"""What an outcome is worth: exactly the struck ranks, the cause of the truth, and silence about the healthy."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.hangbench.outcome import Outcome, Score, score
from tests.hangbench.table import summary, table_markdown

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


def test_table_counts_each_tool_over_all_runs():
    """What a tool cannot run counts among the hangs it was silent about, and not among the healthy."""
    told = [
        scored("user_sleep", said((1,))),
        scored("user_spin", said((0,))),
        scored("file_flock", Outcome(cannot="needs an optimizer")),
        scored("healthy", said(())),
        scored("healthy_join", Outcome(cannot="needs an optimizer")),
    ]
    counted = summary(asdict(one) for one in told)

    run = {
        "command": "x",
        "machine": "m",
        "tools": {"t": {"name": "T", "version": "1", "settings": "s", **counted}},
    }
    assert "| T 1 | 2/3 | 1/3 | 2/3 | 33% (1/3) | 4.0 (4.0) | 0/3 | 1/1 |" in table_markdown(run)
