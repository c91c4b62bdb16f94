"""A pause that a framework makes by itself is no alarm, however short the user's patience is; and it has an end."""

from __future__ import annotations

from ddetect.coordinator.due import PAUSE_MARGIN
from ddetect.frameworks.tensorflow.pauses import FREES_ITERATOR_S
from ddetect.messages import NodeRoster
from ddetect.model import Cause, Culprit, Proof, Roster, Sample, Sighting, Stage, Status, Verdict, Waiting
from tests.unit.coordinator.test_state import Story
from tests.unit.correlate.scenes import LIB, TRAIN, sighting, thread

ALONE = Verdict(
    Status.HANG, Cause.USER_CODE, Proof.TIME, 0.8, "rank 0 waits on a lock", (Culprit(0),), (Waiting((1,), "step"),)
)  # fmt: skip
KERAS = f"{LIB}/site-packages/keras/src/backend/tensorflow/trainer.py"


def asleep_in(function: str) -> Sighting:
    return sighting(thread(f"{function} {KERAS}:397", *TRAIN, syscall="futex", wchan="futex_do_wait"))


class Keras(Story):
    """One process that trains with Keras and stands still in this function."""

    def __init__(self, function: str) -> None:
        self.look = asleep_in(function)
        super().__init__(ALONE, patience_s=15.0)
        self.run(10, stepping=True)

    def roster(self, version: int = 1, start: int = 5) -> None:
        self.version = version
        roster = Roster([0, 1], [0, 0], [0, 0], [11, 12], [start, start + 1], ("node-0",))
        self.send(NodeRoster(version, 2, 0, roster, "tensorflow"))

    def sample(self) -> Sample:
        two = [0, 0]
        return Sample(
            rank=[0, 1], role=[1, 1], index=[-1, -1], pid=[11, 12], sighting=two, fetching=[-1, -1],
            fetch_age_s=two, cpu_s=two, io_bytes=two, tick_age_s=two, sightings=(self.look,),
        )  # fmt: skip


def test_keras_that_frees_an_iterator_between_epochs_gets_the_time_for_it():
    story = Keras("fit").run(PAUSE_MARGIN * FREES_ITERATOR_S - 15)

    assert story.stages() == [Stage.SUSPECTED]
    assert Stage.CONFIRMED in story.run(40).stages()


def test_another_function_of_keras_gets_no_more_than_patience():
    assert Stage.CONFIRMED in Keras("train_on_batch").run(40).stages()
