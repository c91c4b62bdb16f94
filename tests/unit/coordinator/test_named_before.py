"""Deaths during a stall, and deaths that somebody wanted, told to the real judge: no victim gets an alarm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.coordinator.events import Ending
from ddetect.correlate.judge import judge
from ddetect.messages import NodeGone
from ddetect.model import (
    Cause,
    Departure,
    Gone,
    Proof,
    Raised,
    Role,
    Sample,
    Sighting,
    Stage,
    Status,
    Verdict,
)
from tests.unit.coordinator.test_state import Story
from tests.unit.correlate.scenes import DOINGS, in_call

RAISED, VANISHED = Departure.RAISED, Departure.VANISHED
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
TIMED_OUT = "RuntimeError: Timed out waiting 30000ms for recv operation to complete"
FAILED = Ending("the job ended with exit code 1", 1)


class Judged(Story):
    """Two ranks in the looks, rank 0 in a collective and rank 1 asleep unless told otherwise; the real judge."""

    def __init__(self) -> None:
        self.looks: dict[int, Sighting] = {0: in_call("all_reduce"), 1: DOINGS["asleep"].look}
        super().__init__()
        self.judge = judge

    def sample(self) -> Sample:
        gone = {gone.rank for gone, _ in self.job.gone}
        ranks = [rank for rank in self.looks if rank not in gone]
        none = [0] * len(ranks)
        return Sample(
            ranks, [Role.RANK] * len(ranks), [-1] * len(ranks), [11 + rank for rank in ranks], list(range(len(ranks))),
            [-1] * len(ranks), none, none, none, none, tuple(self.looks[rank] for rank in ranks),
        )  # fmt: skip

    def loses(self, rank: int, exception: str = "", *, signal: int = 0, age_s: float = 0.1) -> None:
        how = RAISED if exception else VANISHED
        gone = Gone(rank, Role.RANK, -1, 11 + rank, how, age_s, exception, signal=signal)
        self.send(NodeGone((gone,)))

    def alarms(self) -> list[tuple[int, tuple[int, ...]]]:
        """The number of the incident, and who is named."""
        return [
            (record.incident.number, record.incident.verdict.culprit_ranks)
            for record in self.records
            if record.alarm
        ]


def hangs(seconds: int) -> Judged:
    story = Judged()
    story.run(10, stepping=True).run(seconds)
    assert story.records[-1].incident.verdict.culprit_ranks == (1,)
    return story


@pytest.mark.parametrize("ends_after_s", [0, 6])
def test_hang_of_nobody_in_particular_that_ends_by_a_timeout_stays_one_incident(ends_after_s):
    """The network is down: everyone is in and nobody comes out, until all of them give up."""
    nobody = Verdict(Status.HANG, Cause.ALL_ENTERED_NONE_LEFT, Proof.TIME, 0.6, "everyone is in")
    story = Judged()
    story.judge = lambda snapshot: judge(snapshot) if snapshot.gone else nobody
    story.run(10, stepping=True).run(200)
    for rank in (0, 1):
        story.loses(rank, TIMED_OUT)
    story.run(ends_after_s)
    story.event(FAILED)

    assert story.alarms() == [(1, ())]
    assert {record.incident.number for record in story.records} == {1}
    assert story.records[-1].incident.verdict.cause is Cause.ALL_ENTERED_NONE_LEFT


@pytest.mark.parametrize("ends_after_s", [0, 1, 6, 20])
@pytest.mark.parametrize("hang_s", [10, 90], ids=["suspected", "confirmed"])
@pytest.mark.parametrize("ended", [True, False], ids=["ended by torchrun", "not told"])
def test_hang_that_ends_by_a_timeout_stays_one_incident_of_its_culprit(hang_s, ends_after_s, ended):
    """Rank 1 sleeps, rank 0 gives up, torchrun ends rank 1: one alarm, and it names rank 1."""
    story = hangs(hang_s)
    story.loses(0, TIMED_OUT)
    if ended:
        story.run(0.25).loses(1, signal=15)
    story.run(ends_after_s)
    story.event(FAILED)

    assert story.alarms() == [(1, (1,))]
    assert {record.incident.number for record in story.records} == {1}
    last = story.records[-1]
    assert last.incident.stage is Stage.CLOSED
    assert (last.incident.verdict.cause, last.incident.verdict.culprit_ranks) == (Cause.USER_CODE, (1,))
    assert any(
        "rank 0 (pid 11) raised RuntimeError: Timed out" in line for line in last.incident.verdict.evidence
    )
    assert judge(last.snapshot).culprit_ranks == (1,)


def test_deaths_in_a_stall_are_told_once():
    """Looks go on: the lines of the deaths do not pile up."""
    story = hangs(10)
    story.loses(0, TIMED_OUT)
    story.run(120)

    evidence = story.records[-1].incident.verdict.evidence
    assert sum("rank 0 (pid 11) raised" in line for line in evidence) == 1


@pytest.mark.parametrize("hang_s", [10, 90], ids=["suspected", "confirmed"])
def test_fault_in_a_stall_is_an_incident_of_its_own(hang_s):
    """Rank 1 raised after all: that is news. What was only suspected is taken back, what was an alarm stays."""
    story = hangs(hang_s)
    story.loses(1, "ValueError: bad shard")
    story.event(FAILED)

    assert story.alarms()[-1] == (2 if hang_s > 60 else 1, (1,))
    assert (Stage.WITHDRAWN in story.stages()) is (hang_s < 60)
    assert story.records[-1].incident.verdict.cause is Cause.PYTHON_EXCEPTION


def test_stall_that_somebody_ends_is_no_alarm():
    """Who interrupts a job that seems to hang is not told of it."""
    story = hangs(10)
    story.loses(1, "KeyboardInterrupt")
    story.loses(0, CLOSED)
    story.run(3)
    story.event(FAILED)

    assert story.alarms() == []


def test_death_whose_cause_was_never_seen_names_nobody():
    """No stall before it: somebody must hear of it, and no victim is named."""
    story = Judged()
    story.run(10, stepping=True)
    story.loses(0, CLOSED)
    story.loses(1, CLOSED)
    story.event(FAILED)

    assert story.alarms() == [(1, ())]


# ---------------------------------------------------------------- somebody wanted it to end


def steps() -> Judged:
    story = Judged()
    story.looks[1] = in_call("all_reduce")
    story.run(10, stepping=True)
    return story


def test_interrupted_rank_on_its_way_out_is_no_alarm():
    """Its peer has lost the connection already."""
    story = steps()
    out = DOINGS["exiting"]
    story.looks[1] = replace(out.look, raised=Raised("KeyboardInterrupt", fatal=True))
    story.phase = out.phase
    story.loses(0, CLOSED)
    story.run(4)

    assert story.alarms() == []


@pytest.mark.parametrize("at_the_end", [True, False])
@pytest.mark.parametrize(
    "deaths",
    [
        [(1, "SignalException: Process 12 got signal: 15", 0, 0.2)],
        [(1, "SignalException: Process 12 got signal: 15", 0, 0.2), (0, CLOSED, 0, 0.1)],
        [(1, "", 15, 0.2), (0, "KeyboardInterrupt", 0, 0.1)],
        [(1, "", 9, 0.2), (0, "KeyboardInterrupt", 0, 0.1)],
        [(0, "", 15, 0.2), (1, "", 15, 0.199)],
        [(0, "", 2, 0.2), (1, "", 2, 0.2)],
    ],
    ids=["SignalException", "SignalException and its peer", "SIGTERM", "SIGKILL", "SIGTERM to all", "SIGINT to all"],
)  # fmt: skip
def test_end_that_somebody_asked_for_is_no_alarm(deaths, at_the_end):
    """Nobody told the coordinator: the deaths tell."""
    story = steps()
    for rank, said, signal, age_s in deaths:
        story.loses(rank, said, signal=signal, age_s=age_s)
    story.run(0 if at_the_end else 4)
    story.event(FAILED)

    assert story.alarms() == []
    assert not at_the_end or story.records == []


@pytest.mark.parametrize("signal", [9, 15])
def test_one_rank_killed_while_the_other_lives_is_an_alarm(signal):
    """rank_killed, membership_change."""
    story = steps()
    story.loses(1, signal=signal)
    story.run(4)

    assert story.alarms() == [(1, (1,))]


def test_fault_before_an_interrupt_is_an_alarm():
    """The user saw it and ended the rest."""
    story = steps()
    story.loses(1, "ValueError: bad shard", age_s=5.0)
    story.loses(0, "KeyboardInterrupt", age_s=0.1)
    story.run(3)

    assert story.alarms() == [(1, (1,))]


def test_ranks_that_move_once_more_because_they_raise_are_no_progress():
    """torch's timeout: each rank that gives up moves a counter, and then it is gone."""
    story = hangs(90)
    story.active_at = story.now
    story.run(1.5)
    story.loses(0, TIMED_OUT)
    story.active_at = story.now
    story.run(1.5)
    story.loses(1, signal=15)
    story.run(3)
    story.event(FAILED)

    last = story.records[-1].incident
    assert {record.incident.number for record in story.records} == {1}
    assert last.closed is not None
    assert last.closed.reason == "the job ended with exit code 1"
