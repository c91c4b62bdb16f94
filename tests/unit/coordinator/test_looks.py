"""When the coordinator looks: what repeats is seen to move, what stands still is looked at again before an alarm."""

from __future__ import annotations

import pytest

from ddetect.coordinator.watch import LAST_LOOKS_S
from ddetect.model import Cause, Culprit, Proof, Role, Sample, Stage, Status, Verdict, Waiting
from tests.unit.coordinator.test_state import Story
from tests.unit.correlate.scenes import DOINGS, TRAIN, sighting, thread

PATIENCE_S = 15.0
COMPILES = Verdict(
    Status.HANG,
    Cause.BUILDING,
    Proof.TIME,
    0.7,
    "rank 1 compiles",
    (Culprit(1),),
    (Waiting((0,), "all_reduce"),),
)
PASSES = tuple(sighting(thread(f"{name} /job/backend.py:20", *TRAIN)) for name in ("fuse", "plan"))


class Repeating(Story):
    """Rank 1 is in one function for half of each period, and in another for the rest."""

    def __init__(self, period_s: float, phase: float) -> None:
        self.period_s, self.phase = period_s, phase
        super().__init__(COMPILES, patience_s=PATIENCE_S)
        self.run(10, stepping=True)

    def sample(self) -> Sample:
        two = [0, 0]
        now = PASSES[(self.now / self.period_s + self.phase) % 1 < 0.5]
        return Sample(
            rank=[0, 1], role=[Role.RANK] * 2, index=[-1] * 2, pid=[11, 12], sighting=[0, 1], fetching=[-1] * 2,
            fetch_age_s=two, cpu_s=two, io_bytes=two, tick_age_s=two, sightings=(DOINGS["queue"].look, now),
        )  # fmt: skip


@pytest.mark.parametrize("period_s", [1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 4.25, 4.5, 5.0, 5.5, 7.0])
def test_program_that_repeats_is_not_met_at_the_same_place_each_time(period_s):
    """Passes of a compiler, shards of a validation: no alarm, whenever the looks begin."""
    for phase in range(4):
        story = Repeating(period_s, phase / 4).run(28)

        assert Stage.CONFIRMED not in story.stages(), (period_s, phase / 4)


def test_alarm_that_only_time_proves_comes_after_some_looks_more():
    """Patience is up, and it is looked at again before anybody is woken."""
    story = Repeating(period_s=10_000.0, phase=0.0).run(PATIENCE_S + 1)
    looks = story.asked
    assert Stage.CONFIRMED not in story.stages()

    story.run(6)

    assert Stage.CONFIRMED in story.stages()
    assert story.asked >= looks + len(LAST_LOOKS_S)


def test_after_the_alarm_looks_are_rare_again():
    """Each look halts every rank for a moment."""
    story = Repeating(period_s=10_000.0, phase=0.0).run(PATIENCE_S + 10)
    looks = story.asked

    story.run(60)

    assert story.asked <= looks + 25
