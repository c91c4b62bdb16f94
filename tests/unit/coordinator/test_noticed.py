"""What stands still within the usual is noticed and glanced at; only past the usual of its place it is a suspicion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.coordinator.events import Ask, Ending, Keep, Note
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.view import job_state, noticed
from ddetect.messages import TakeEvidence
from ddetect.model import Culprit, Phase, Settings, Stage, Where
from tests.unit.coordinator.test_state import LOADING, WELL, Story, died

ROLLOUT = replace(LOADING, culprits=(Culprit(1, where=Where("generate", "rollout.py", 6)),))
ELSEWHERE = replace(LOADING, culprits=(Culprit(1, where=Where("upload", "store.py", 9)),))


class Slow(Story):
    """A job whose steps take 45 s, in which rank 1 is in rollout.py meanwhile; five of them are history."""

    def __init__(self, steps: int = 8, step_s: float = 45.0, **settings: float) -> None:
        super().__init__(ROLLOUT, **{"patience_s": 300.0, **settings})
        self.run(10, stepping=True)
        for _ in range(steps):
            self.run(step_s)
            self.run(3, stepping=True)

    @property
    def orders(self) -> list[TakeEvidence]:
        asks = [one.message for one in self.commands if isinstance(one, Ask)]
        return [order for order in asks if isinstance(order, TakeEvidence)]


def test_long_steps_are_learned_and_then_only_noticed():
    """The first of them is a suspicion that is taken back; later ones make no word on disk, and light glances only."""
    story = Slow()
    said, orders = len(story.said), len(story.orders)
    assert Stage.CONFIRMED not in story.stages()

    story.run(40)

    assert job_state(story.job, story.now) == "noticed"
    assert noticed(story.job, story.now).startswith("rank 1 is in rollout.py:6 generate for ")
    assert "usual up to 4" in noticed(story.job, story.now)
    assert len(story.said) == said
    assert [order.light for order in story.orders[orders:]] == [True]
    assert any(isinstance(one, Keep) for one in story.commands)
    story.run(5).run(3, stepping=True)
    assert (story.job.watch, len(story.said)) == (None, said)


def test_step_of_a_moment_between_long_ones_ends_the_gap():
    """Rollout, a step of a tenth of a second, the next rollout: the gap is that of one of them."""
    story = Slow(steps=0)
    for _ in range(4):
        story.run(90)
        story.step, story.step_at = story.step + 1, story.now
        story.run(1)

    usual = story.job.patience.usual_s(Phase.OTHER, "rollout.py:generate")
    assert 88 <= usual <= 95


def test_hang_at_the_usual_place_is_suspected_after_one_and_a_half_of_the_usual():
    """Three times the step time was 142 s."""
    story = Slow()
    said = len(story.said)

    story.run(45 * 1.5)
    assert len(story.said) == said

    story.run(9)
    assert [one.incident.stage for one in story.said[said:]] == [Stage.SUSPECTED]


def test_hang_at_a_new_place_is_suspected_at_the_first_glance():
    """Nobody has ever stood there: 35 s, however long the steps are."""
    story = Slow(step_s=180.0)
    story.verdict, said = ELSEWHERE, len(story.said)

    story.run(35)

    assert [one.incident.stage for one in story.said[said:]] == [Stage.SUSPECTED]
    assert story.said[-1].incident.verdict.culprits == ELSEWHERE.culprits


def test_alarm_waits_for_three_times_the_usual_of_that_place():
    """Rollouts of 180 s: 540 s there, and patience elsewhere."""
    for verdict, limit in ((ROLLOUT, 540), (ELSEWHERE, 300)):
        story = Slow(step_s=180.0)
        story.verdict = verdict
        story.run(limit - 10)
        assert Stage.CONFIRMED not in story.stages()

        story.run(20)

        assert Stage.CONFIRMED in story.stages()


def test_what_is_learned_ends_at_ten_times_patience():
    """A pause of an hour does not make the next one of an hour and a half usual."""
    patience = Patience(Settings(patience_s=30.0)).learn(Phase.OTHER, 3600.0, ("rollout.py:generate",))

    assert patience.usual_s(Phase.OTHER, "rollout.py:generate") == 300.0
    assert patience.suspect_after_s(Phase.OTHER, "rollout.py:generate", steps=9) == 451.0


def test_job_that_dies_while_it_is_noticed_is_judged_at_once():
    """The glance is not the last word."""
    story = Slow()
    story.run(40)
    asked = story.asked

    story.send(died())
    story.run(1)

    assert story.asked > asked


def test_job_that_is_ended_while_it_is_noticed_leaves_nothing():
    """Somebody had enough of it; nothing was wrong."""
    story = Slow()
    story.run(40)
    said = len(story.said)

    story.event(Ending("the job was asked to end by SIGTERM"))
    story.event(Ending("the job ended with exit code 143", 143))

    assert len(story.said) == said


@pytest.mark.parametrize(("gap_s", "named"), [(40, False), (310, True)])
def test_glance_explains_a_death_only_where_the_job_stood_for_as_long_as_patience(gap_s, named):
    """Within a usual step it says who is waited for, and nothing of who is at fault."""
    story = Slow(steps=1, step_s=800.0)
    story.run(gap_s)
    assert story.job.watch is not None
    assert story.job.watch.noticed
    story.answers = False

    story.send(died())
    story.run(0.5)

    assert (story.job.watch is not None and story.job.watch.named is not None) is named


def test_job_that_ends_slowly_is_glanced_at_and_left_in_peace():
    """Everybody is on the way out, and nothing is wrong: no looks over and over."""
    story = Slow()
    story.verdict, orders = WELL, len(story.orders)

    story.run(400)

    assert [order.light for order in story.orders[orders:]] == [True] * 4
    assert story.job.watch is not None


@pytest.mark.parametrize(("note_after_s", "notes"), [(60.0, 1), (1000.0, 0)])
def test_suspicion_that_lasts_is_noted_once(note_after_s, notes):
    """For those to whom 300 s of 4,096 GPUs are dear."""
    story = Slow(steps=0, note_after_s=note_after_s)

    story.run(200)

    told = [one.incident.stage for one in story.commands if isinstance(one, Note)]
    assert told == [Stage.SUSPECTED] * notes


@pytest.mark.parametrize("seconds", [170, 1200])
def test_job_that_was_frozen_as_a_whole_is_no_suspicion_when_it_thaws(seconds):
    """SIGSTOP to all of it, as a scheduler does: pages have stood still meanwhile, and that says nothing."""
    story = Slow(steps=0)
    said = len(story.said)
    story.state = ord("T")
    story.run(seconds)
    story.state = ord("S")

    story.run(1.5).run(10, stepping=True)

    assert len(story.said) == said
