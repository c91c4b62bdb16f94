"""The table of limits: what an alarm waits for, in numbers, and the words that people read of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ddetect import table_of_limits
from ddetect.correlate.confidence import before_alarm
from ddetect.correlate.judge import judge
from ddetect.correlate.limits import (
    Situation,
    alarm_after_s,
    nothing_read,
    place_of,
    situation_of,
    time_out,
    usual_s,
)
from ddetect.model import Culprit, Limit, Phase, Proof, Settings, Stage, Status, Verdict, Waiting, Where
from ddetect.report.outlook import outlook_words
from tests.unit.correlate.scenes import scene

DEFAULT = Settings()
HANG = Verdict(
    Status.HANG, None, Proof.TIME, 0.9, "", (Culprit(1, where=Where("generate", "/job/rollout.py", 6)),),
    (Waiting((0,), "barrier"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("situation", "usual", "after"),
    [
        (Situation.PROVEN, 0, 0),
        (Situation.STILL, 0, 300),
        (Situation.STILL, 180, 540),
        (Situation.STILL, 5000, 3000),
        (Situation.POLLS, 0, 900),
        (Situation.POLLS, 180, 1620),
        (Situation.POLLS, 5000, 3000),
        (Situation.UNDECIDED, 0, 900),
        (Situation.UNREAD, 0, 900),
        (Situation.RUNS, 180, 3000),
        (Situation.APART, 180, 3000),
        (Situation.WORKS, 0, math.inf),
    ],
)
def test_alarm_comes_after_the_limit_of_its_situation(situation, usual, after):
    """Patience of 300 s, a gap of `usual` at this place."""
    assert alarm_after_s(situation, DEFAULT, usual) == after


@pytest.mark.parametrize(
    ("situation", "after"), [(Situation.STILL, 300), (Situation.POLLS, 900), (Situation.RUNS, 1800)]
)
def test_before_the_fifth_step_who_runs_gets_the_patience_of_the_start(situation, after):
    """Half an hour for compilers and data sets; nothing is learned yet."""
    assert alarm_after_s(situation, DEFAULT, 500.0, starting=True) == after


def test_table_that_people_read_has_a_row_for_every_limit():
    """Its numbers are those of the code."""
    text = table_of_limits.as_text()

    assert [after for _, after in table_of_limits.ROWS][2:] == ["3 L", "10 x patience", "never"]
    assert "3 x the longest healthy gap" in text
    assert table_of_limits.as_markdown().count("\n| ") == len(table_of_limits.ROWS)
    for situation in Situation:
        words = outlook_words(situation.value, 300.0, 60.0, "")
        assert words.startswith("Alarm in 1m")


@pytest.mark.parametrize("document", ["README.md", "ddetect/ARCHITECTURE.md"])
def test_documents_show_the_table(document):
    """One text for all."""
    assert table_of_limits.as_markdown() in (Path(__file__).parents[3] / document).read_text()


@pytest.mark.parametrize(
    ("changed", "members", "unread", "situation"),
    [
        ({}, 2, False, Situation.STILL),
        ({}, 2, True, Situation.UNREAD),
        ({"waiting": ()}, 2, False, Situation.APART),
        ({"waiting": ()}, 1, False, Situation.STILL),
        ({"status": Status.UNDECIDED, "culprits": ()}, 2, False, Situation.UNDECIDED),
        ({"proof": Proof.STRUCTURAL}, 2, False, Situation.PROVEN),
        ({"status": Status.STOPPED, "waiting": ()}, 2, False, Situation.STILL),
    ],
)
def test_what_was_found_is_a_situation(changed, members, unread, situation):
    assert situation_of(replace(HANG, **changed), members=members, unread=unread) is situation


def test_usual_is_that_of_the_place_and_of_gaps_that_nobody_looked_at():
    """Another place's rollouts of three minutes excuse nothing here."""
    limits = [
        Limit(Phase.OTHER, 180.0, 4, "rollout.py:generate"),
        Limit(Phase.OTHER, 12.0, 9),
        Limit(Phase.DATA, 99.0, 9),
    ]

    assert usual_s(limits, Phase.OTHER, "rollout.py:generate") == 180.0
    assert usual_s(limits, Phase.OTHER, "train.py:evaluate") == 12.0
    assert usual_s(limits, Phase.JOINING, "train.py:evaluate") == 0.0


def test_place_is_the_functions_of_those_that_are_named():
    """Lines change, and paths are the host's."""
    two = (*HANG.culprits, Culprit(2, where=Where("evaluate", "eval.py", 3)), Culprit(3))

    assert place_of(HANG) == "rollout.py:generate"
    assert place_of(replace(HANG, culprits=two)) == "eval.py:evaluate|rollout.py:generate"
    assert place_of(replace(HANG, culprits=(Culprit(3),))) == ""


def test_rank_of_which_the_look_has_nothing_is_unread():
    """Its process could not be looked at in time; who is read in part is read."""
    whole = scene(all_reduce=[0], asleep=[1])
    sample = whole.newest.sample
    blank = replace(sample.sightings[int(sample.sighting[1])], state="", threads=())
    part = replace(
        sample,
        sightings=(*sample.sightings, blank),
        sighting=np.array([sample.sighting[0], len(sample.sightings)]),
    )

    assert not nothing_read(whole)
    assert nothing_read(replace(whole, looks=(replace(whole.newest, sample=part),)))


def test_operation_that_times_out_tells_how_long_it_may_last():
    """Of those that others wait in, the first that gives up."""
    whole = scene(all_reduce=[0], asleep=[1])
    ops = whole.comms.ops
    told = replace(ops, age_s=np.full(len(ops), 100.0), timeout_s=np.full(len(ops), 600.0))
    looks = (replace(whole.newest, comms=replace(whole.comms, ops=told)),)

    assert time_out(whole, judge(whole)) == (math.inf, math.inf)
    assert time_out(replace(whole, looks=looks), judge(whole)) == (600.0, 500.0)


def test_confidence_of_what_only_time_proves_grows_and_reaches_ninety_only_as_an_alarm():
    """Half of it at first; just before the alarm still below; as an alarm all of it."""
    hung = replace(scene(all_reduce=[0, 2], asleep=[1]), settings=Settings(patience_s=60))
    sure = [
        judge(replace(hung, stalled_for_s=still, still_s=still)).confidence for still in (0, 15, 30, 59, 600)
    ]

    assert sure == sorted(sure)
    assert (sure[0], sure[-1]) == (0.5, 0.85)
    assert judge(replace(hung, stage=Stage.CONFIRMED)).confidence == 0.97
    assert max(before_alarm(1.0, share) for share in (0.5, 1.0, 9.0)) <= 0.9


def test_what_is_proven_by_itself_is_as_sure_at_once():
    """A stopped process needs no time."""
    assert judge(scene(all_reduce=[0, 2], stopped=[1])).confidence == 0.97
