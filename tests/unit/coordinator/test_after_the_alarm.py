"""What somebody was woken for: one look that differs takes nothing back, and the evidence stays that of the verdict."""

from __future__ import annotations

from ddetect.coordinator.watch import RELOOK_S
from ddetect.model import Cause, Proof, Sample, Stage, Status, Verdict
from tests.unit.coordinator.test_state import LOADING, STOPPED, WELL, Story


class Stopped(Story):
    """A rank was stopped, and the alarm is out. Each look has bytes of its own, so that looks can be told apart."""

    def __init__(self) -> None:
        super().__init__(STOPPED)
        self.run(10, stepping=True).run(5)
        assert self.stages() == [Stage.CONFIRMED]

    def sample(self) -> Sample:
        self.io_bytes += 1
        return super().sample()

    def look_once(self) -> None:
        asked = self.asked
        while self.asked == asked:
            self.run(0.25)


def test_look_that_meets_a_rank_which_has_just_gone_on_changes_no_word():
    """SIGCONT, a look, the next step: the incident was a stopped process."""
    story = Stopped()
    story.verdict = LOADING
    story.look_once()

    story.run(2, stepping=True)

    last = story.records[-1]
    assert (last.incident.stage, last.incident.verdict.cause) == (Stage.CLOSED, Cause.PROCESS_STOPPED)


def test_job_that_is_stuck_elsewhere_by_now_is_told_anew():
    """Nobody sends SIGCONT to a process that runs."""
    story = Stopped()
    story.verdict = LOADING

    story.run(3 * max(RELOOK_S))

    last = story.records[-1].incident
    assert (last.stage, last.verdict.cause) == (Stage.CONFIRMED, Cause.DATA_LOADING)
    assert [said.cause for said in last.history] == [Cause.PROCESS_STOPPED]


def test_alarm_that_names_somebody_outlives_looks_that_know_nothing():
    """Ranks time out one after the other: who is left says less, and what was right while it hung stays."""
    story = Stopped()
    story.verdict = Verdict(Status.UNDECIDED, None, Proof.TIME, 0.3, "rank 0 is inside a call")

    story.run(5 * max(RELOOK_S))

    assert [record.incident.verdict.cause for record in story.records] == [Cause.PROCESS_STOPPED]


def test_evidence_of_a_closed_incident_is_that_of_its_verdict():
    """Judged again it must give the same answer; a later look shows a job that moves."""
    story = Stopped()
    told = story.records[-1].snapshot
    story.verdict = WELL

    story.look_once()

    closed = story.records[-1]
    assert closed.incident.stage is Stage.CLOSED
    assert closed.snapshot.samples[-1].io_bytes.tolist() == told.samples[-1].io_bytes.tolist()
