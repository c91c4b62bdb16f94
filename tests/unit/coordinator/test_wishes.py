"""Somebody ends the job: what was right while it hung stays, the end is its last line, and nothing becomes an alarm."""

from __future__ import annotations

import pytest

from ddetect.coordinator import life
from ddetect.coordinator.events import Ending
from ddetect.coordinator.events import Judged as Opined
from ddetect.coordinator.opinion import form_opinion
from ddetect.messages import JobEnds, RanksEnded
from ddetect.model import Cause, Stage
from tests.unit.coordinator.test_named_before import CLOSED, Judged, hangs
from tests.unit.coordinator.test_state import Story

ENDED = Ending("the job ended with exit code 143", 143)


def last_of(story: Judged):
    return story.records[-1].incident


@pytest.mark.parametrize("hang_s", [10, 90], ids=["suspected", "confirmed"])
@pytest.mark.parametrize("known", [15, 0], ids=["signal seen", "waited for by torchrun"])
def test_hang_that_somebody_ends_keeps_its_verdict(hang_s, known):
    """SIGTERM to the launcher: the ranks vanish, and the verdict is what it was."""
    story = hangs(hang_s)
    before = story.records[-1].incident.verdict
    alarms = story.alarms()
    story.send(JobEnds(signal=15))
    story.loses(1, signal=known)
    story.loses(0, signal=15)
    story.run(3)
    story.event(ENDED)

    last = last_of(story)
    assert (last.stage, last.verdict) == (Stage.CLOSED, before)
    assert last.closed.reason == "the job was asked to end by SIGTERM; the job ended with exit code 143"
    assert not last.closed.recovered
    assert story.alarms() == alarms


def test_deaths_that_are_told_before_the_wish_are_of_the_wish():
    """A busy machine: the ranks are gone before the launcher has run."""
    story = hangs(10)
    story.loses(1, signal=15)
    story.loses(0, signal=0)
    story.run(0.5)
    story.send(JobEnds(signal=15))
    story.run(3)
    story.event(ENDED)

    assert story.alarms() == []
    assert last_of(story).verdict.cause is Cause.USER_CODE


@pytest.mark.parametrize("told", [True, False], ids=["told", "nobody tells"])
def test_confirmed_hang_keeps_its_verdict_whoever_kills_it(told):
    """`kill -9` of the ranks by hand, one after the other."""
    story = hangs(90)
    if told:
        story.send(JobEnds(signal=15))
    story.loses(0, signal=9)
    story.run(6)
    story.loses(1, signal=9)
    story.run(6)
    story.event(Ending("the job ended with exit code 137", 137))

    assert {record.incident.number for record in story.records} == {1}
    assert (last_of(story).verdict.cause, last_of(story).verdict.culprit_ranks) == (Cause.USER_CODE, (1,))


def test_interrupted_rank_that_moves_on_its_way_out_is_no_progress():
    """Ctrl-C on a job that is stuck in a lock: the wish is known, and counters move once more."""
    story = hangs(20)
    story.send(JobEnds(signal=2))
    story.run(1.5, stepping=True)
    story.loses(1, "KeyboardInterrupt")
    story.loses(0, CLOSED)
    story.event(Ending("the job ended with exit code 130", 130))

    assert last_of(story).closed.reason.startswith("the job was asked to end by SIGINT")


def test_one_beat_of_activity_is_no_progress():
    """A rank that is interrupted moves once, and nobody has told us why yet."""
    story = hangs(90)
    story.run(0.5, stepping=True)
    story.send(JobEnds(signal=2))
    story.run(3)
    story.event(Ending("the job ended with exit code 130", 130))

    assert not last_of(story).closed.recovered


def test_fault_from_before_the_wish_is_an_alarm():
    """Rank 1 raised, and somebody was quick to end the rest."""
    story = Judged()
    story.run(10, stepping=True)
    story.loses(1, "ValueError: bad shard", age_s=0.6)
    story.send(JobEnds(signal=15))
    story.loses(0, signal=15)
    story.run(1)
    story.event(ENDED)

    assert [ranks for _, ranks in story.alarms()] == [(1,)]
    assert last_of(story).verdict.cause is Cause.PYTHON_EXCEPTION


def test_wish_is_told_again_and_again_and_heard_once():
    """A launcher says it until the job is gone; the clock of outliving it does not begin anew."""
    story = hangs(10)
    for _ in range(70):
        story.send(JobEnds(signal=15))
        story.run(1)

    assert story.job.ending is None or story.job.ending_at > 150


def test_job_that_ends_well_takes_the_suspicion_back():
    story = hangs(10)
    story.event(Ending("the job ended with exit code 0", 0))

    assert story.stages()[-1] is Stage.WITHDRAWN


def test_launcher_that_was_killed_closes_the_incident():
    story = hangs(90)
    story.event(Ending("its launcher was killed; pids 11, 12 may still run", abandoned=True))

    last = last_of(story)
    assert (last.stage, last.verdict.cause) == (Stage.CLOSED, Cause.USER_CODE)
    assert "may still run" in last.closed.reason


def test_what_would_not_die_is_evidence():
    story = hangs(90)
    story.event(Ending("ddetect ended the ranks (--on-hang=stop)", by_us=True))
    story.send(RanksEnded((11,), ("pid 12 (python, D)",), ("pid 13 (wandb-core)",)))

    evidence = " ".join(last_of(story).verdict.evidence)
    assert "pid 12 (python, D) on node-0 could not be ended" in evidence
    assert "pid 13 (wandb-core) on node-0 was left" in evidence


def test_suspected_hang_that_times_out_and_is_restarted_keeps_its_verdict():
    """torchrun starts new ranks two seconds after the first one gave up."""
    story = hangs(10)
    story.loses(0, "RuntimeError: Timed out waiting 30000ms for recv operation to complete")
    story.run(1)
    story.roster(version=2, start=50)
    story.run(5, stepping=True)

    last = last_of(story)
    assert (last.stage, last.attempt, last.verdict.culprit_ranks) == (Stage.CLOSED, 0, (1,))
    assert last.closed.reason == "the job was restarted"
    assert story.alarms() == [(1, (1,))]


def test_history_has_the_time_when_words_were_said():
    """Not the time when they were replaced."""
    story = Story().run(10, stepping=True).run(10)
    said_at = story.records[-1].incident.judged_at_unix_ns
    story.verdict = story.verdict.__class__(**{**_fields(story.verdict), "cause": Cause.FILE_IO})
    story.run(20)

    (earlier,) = story.records[-1].incident.history
    assert earlier.at_unix_ns == said_at


def _fields(verdict) -> dict:
    return {name: getattr(verdict, name) for name in verdict.__dataclass_fields__}


@pytest.mark.parametrize("number", [9, 11, 6], ids=["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_rank_that_was_killed_just_before_somebody_ended_the_rest_is_an_alarm(number):
    """One rank is out of memory, and the scheduler ends the others a second later."""
    story = Judged()
    story.run(10, stepping=True)
    story.loses(1, signal=number, age_s=0.3)
    story.run(0.5)
    story.send(JobEnds(signal=15))
    story.loses(0, signal=15)
    story.run(1)
    story.event(ENDED)

    assert [ranks for _, ranks in story.alarms()] == [(1,)]


def test_fault_from_before_the_wish_that_is_told_after_it_is_an_alarm():
    """A rank that raised needs seconds to be gone; the wish overtakes it."""
    story = Judged()
    story.run(10, stepping=True)
    story.send(JobEnds(signal=15))
    story.loses(1, "ValueError: bad shard", age_s=2.0)
    story.loses(0, signal=15)
    story.run(1)
    story.event(ENDED)

    assert [ranks for _, ranks in story.alarms()] == [(1,)]


def test_handler_that_raises_on_the_wish_is_no_fault():
    story = Judged()
    story.run(10, stepping=True)
    story.loses(1, "ValueError: I was told to end", age_s=0.1)
    story.send(JobEnds(signal=15, age_s=0.6))
    story.run(1)
    story.event(ENDED)

    assert story.alarms() == []


@pytest.mark.parametrize("every_s", [1, 3, 6, 10])
def test_job_of_long_steps_goes_on_when_it_steps_again(every_s):
    """Its counters stand between two steps for longer than the floor."""
    story = hangs(90)
    for _ in range(12):
        story.run(0.5, stepping=True).run(every_s)

    assert story.stages()[-1] is Stage.CLOSED
    assert last_of(story).closed.recovered


def test_judgement_that_cannot_be_taken_in_once_silences_nobody(monkeypatch):
    story = Judged()
    story.run(10, stepping=True)
    right, failed = life.said, []

    def fails_once(*args):
        if not failed:
            failed.append(True)
            raise ZeroDivisionError
        return right(*args)

    monkeypatch.setattr(life, "said", fails_once)
    with pytest.raises(ZeroDivisionError):
        story.run(20)
    story.run(20)

    assert story.records


def test_wish_while_the_last_judgement_of_an_attempt_is_on_its_way_blinds_nobody():
    story = Judged()
    story.run(10, stepping=True)
    judge, story.judge = story.judge, None
    held = []
    story.hold = held
    story.loses(1, "ValueError: bad shard")
    story.roster(version=2, start=50)
    story.send(JobEnds(signal=15))
    story.hold = None
    story.judge = judge
    for case in held:
        story.event(Opined(form_opinion(case)))
    story.run(70, stepping=True).run(30)

    assert len(story.alarms()) >= 1
    assert story.job.watch is not None
