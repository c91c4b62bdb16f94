"""Deaths in the state machine: what only time can prove is waited for, and the end of the job is the last moment."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from ddetect.coordinator.events import Ending, Event, Heard, Lost, Record, Tick
from ddetect.correlate.judge import judge
from ddetect.messages import Evidence, FromAgent, NodeBeat, NodeGone, NodeRoster, TakeEvidence
from ddetect.model import (
    Beats,
    Cause,
    Culprit,
    Departure,
    Gone,
    Look,
    Proof,
    Role,
    Roster,
    Settings,
    Stage,
    Status,
    Verdict,
)
from tests.unit.coordinator.inline import Inline
from tests.unit.coordinator.test_state import Story, died

LIVES = Verdict(
    Status.STOPPED, Cause.USER_CODE, Proof.TIME, 0.48, "rank 0 sleeps; rank 1 timed out", (Culprit(0),)
)
UNSURE = Verdict(Status.UNDECIDED, None, Proof.TIME, 0.3, "not known")
TIMED_OUT = died(Departure.RAISED, "RuntimeError: Timed out waiting 30000ms for recv operation to complete")
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
FAILED = Ending("the job ended with exit code 1", 1)


def alarms(story: Story) -> int:
    return sum(record.alarm for record in story.records)


def test_living_culprit_of_a_death_is_an_alarm_after_patience():
    """A waiter died of its timeout, the job stands: patience, then one alarm."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.run(50)
    assert story.stages() == [Stage.SUSPECTED]

    story.run(20)
    assert story.stages() == [Stage.SUSPECTED, Stage.CONFIRMED]

    story.run(300)
    assert alarms(story) == 1


def test_death_whose_culprit_moves_holds_the_alarm_back():
    """Bytes move: patience begins anew, as in any stall."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(TIMED_OUT)
    for _ in range(120):
        story.io_bytes += 1_000_000
        story.run(1)

    assert alarms(story) == 0


@pytest.mark.parametrize("seconds", [0, 1, 4, 20], ids=lambda s: f"{s} s before the end")
def test_job_that_ends_with_an_error_after_a_timeout_is_an_alarm(seconds):
    """A short hang whose process group gave up before patience was over: judged or not, somebody must hear of it."""
    story = Story(LIVES).run(10, stepping=True).run(30)
    story.send(TIMED_OUT)
    story.run(seconds)
    story.event(FAILED)

    assert alarms(story) == 1
    assert story.stages()[-2:] == [Stage.CONFIRMED, Stage.CLOSED]


def test_death_judged_without_a_stall_before_it_is_an_alarm_at_the_end():
    """The death watch had its verdict and was waiting."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.run(5)
    story.event(FAILED)

    assert story.stages() == [Stage.SUSPECTED, Stage.CONFIRMED, Stage.CLOSED]


def test_undecided_death_is_no_alarm_at_the_end():
    """An alarm says something."""
    story = Story(UNSURE).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.event(FAILED)

    assert alarms(story) == 0


def test_job_that_ends_well_after_a_death_is_no_alarm():
    """Exit code 0."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.run(5)
    story.event(Ending("the job ended", 0))

    assert alarms(story) == 0


@pytest.mark.parametrize("before", [True, False], ids=["asked, then died", "died, then asked"])
def test_job_that_was_asked_to_end_stays_silent(before):
    """SIGINT or SIGTERM came through the launcher."""
    story = Story(LIVES).run(10, stepping=True)
    asked = Ending("the job was asked to end by SIGTERM")
    for event in (asked, None) if before else (None, asked):
        if event:
            story.event(event)
        else:
            story.send(TIMED_OUT)
        story.run(2)
    story.event(Ending("the job ended with exit code 143", 143))

    assert alarms(story) == 0


def test_asked_job_that_takes_long_to_die_stays_silent():
    """A death watch was open when the signal came: patience does not run on against the user's wish."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.run(5)
    story.event(Ending("the job was asked to end by SIGTERM"))
    story.run(58)
    story.event(Ending("the job ended with exit code 143", 143))

    assert alarms(story) == 0


def test_errors_after_somebody_interrupted_a_rank_are_no_alarm():
    """Ctrl-C on another node: its ranks say KeyboardInterrupt, ours that the connection was closed."""
    story = Story(LIVES).run(10, stepping=True)
    story.send(NodeGone((Gone(0, Role.RANK, -1, 11, Departure.RAISED, 0.2, "KeyboardInterrupt"),)))
    story.send(died(Departure.RAISED, CLOSED))
    story.run(3)
    story.event(FAILED)

    assert alarms(story) == 0


class TwoNodes:
    """Rank 0 on node-0, rank 1 on node-1, judged by the real judge; node-0 answers every question."""

    def __init__(self) -> None:
        self.job = Inline("job", Settings(patience_s=60.0), judge=judge)
        self.now = 100.0
        self.stepped_at: float | None = None  # when the last step was; none while steps are made
        self.records: list[Record] = []
        for rank in (0, 1):
            node = f"node-{rank}"
            self.say(node, NodeRoster(1, 2, 0, Roster([rank], [0], [0], [11 + rank], [5], (node,))))
        self.run(10, "node-0", "node-1")

    def event(self, event: Event) -> None:
        for command in self.job.on(event, now=self.now, unix_ns=int(self.now * 1e9)):
            if isinstance(command, Record):
                self.records.append(command)
            elif isinstance(command.message, TakeEvidence) and command.node == "node-0":
                self.say("node-0", Evidence(command.message.request, Look()))

    def say(self, node: str, message: FromAgent) -> None:
        self.event(Heard(node, message))

    def run(self, seconds: int, *beating: str) -> None:
        for _ in range(seconds):
            self.now += 1
            age = 0.0 if self.stepped_at is None else self.now - self.stepped_at
            columns = {item.name: [0] for item in fields(Beats)} | {
                "step": [int(self.now - age)],
                "step_age_s": [age],
                "activity_age_s": [age],
                "has_page": [1],
                "state": [0 if self.job.gone else ord("S")],
            }
            for node in beating:
                self.say(node, NodeBeat(1, Beats(**columns)))
            self.event(Tick())

    def loses_a_peer(self) -> None:
        self.stepped_at = self.now
        gone = Gone(0, Role.RANK, -1, 11, Departure.RAISED, 0.1, CLOSED)
        self.say("node-0", NodeGone((gone,)))


@pytest.mark.parametrize("closed", [True, False], ids=["stream closed", "just silent"])
def test_silent_node_is_named_and_not_its_victim(closed):
    """gloo-peer-host-shutdown from end to end; the launcher ends before or after the agent counts as silent."""
    story = TwoNodes()
    if closed:
        story.event(Lost("node-1"))
        story.run(3, "node-0")
    else:
        story.run(7, "node-0")
    story.loses_a_peer()
    story.run(1, "node-0")
    story.event(FAILED)

    alarm = [record for record in story.records if record.alarm]
    assert [record.incident.verdict.culprit_ranks for record in alarm] == [(1,)]
    assert "node-1 (rank 1) fell silent" in alarm[0].incident.verdict.summary


def test_silent_node_is_named_before_the_end_too():
    """The victim's error is there before the silence is: its alarm waits for what follows."""
    story = TwoNodes()
    story.loses_a_peer()
    story.run(80, "node-0")

    named = [record.incident.verdict.culprit_ranks for record in story.records if record.alarm]
    assert named == [(1,)]


@pytest.mark.parametrize("seconds", [0, 12], ids=["not judged yet", "confirmed before"])
def test_crash_is_told_without_unread_ranks_though_the_agents_left_first(seconds):
    """The launcher ends the agents before the coordinator's last word: ranks whose end was told need no reading."""
    story = TwoNodes()
    story.stepped_at = story.now
    crash = Gone(0, Role.RANK, -1, 11, Departure.RAISED, 0.2, "ValueError: bad")
    story.say("node-0", NodeGone((crash,)))
    story.say("node-1", NodeGone((Gone(1, Role.RANK, -1, 12, Departure.RAISED, 0.1, CLOSED),)))
    story.run(seconds, "node-0", "node-1")
    for node in ("node-0", "node-1"):
        story.event(Lost(node))
    story.event(FAILED)

    verdict = story.records[-1].incident.verdict
    assert alarms(story) == 1
    assert (verdict.culprit_ranks, verdict.unread, verdict.confidence) == ((0,), (), 0.97)
    assert verdict.summary == "rank 0 raised ValueError: bad"


def test_second_death_after_an_alarm_does_not_make_the_first_less_sure():
    """The incident that was confirmed is judged once more at the end, when all agents have left."""
    story = TwoNodes()
    story.stepped_at = story.now
    crash = Gone(0, Role.RANK, -1, 11, Departure.RAISED, 0.2, "ValueError: bad")
    story.say("node-0", NodeGone((crash,)))
    story.run(12, "node-0", "node-1")
    said = story.records[-1].incident.verdict
    story.say("node-1", NodeGone((Gone(1, Role.RANK, -1, 12, Departure.RAISED, 0.1, CLOSED),)))
    for node in ("node-0", "node-1"):
        story.event(Lost(node))
    story.event(FAILED)

    verdict = story.records[-1].incident.verdict
    assert (verdict.culprit_ranks, verdict.unread) == ((0,), ())
    assert verdict.confidence >= said.confidence


def test_agent_that_hung_up_has_left_and_is_not_called_silent():
    """Of a rank whose end nobody told nothing is known: its agent was there a moment ago."""
    story = TwoNodes()
    story.stepped_at = story.now
    story.say("node-0", NodeGone((Gone(0, Role.RANK, -1, 11, Departure.RAISED, 0.1, "ValueError: bad"),)))
    for node in ("node-0", "node-1"):
        story.event(Lost(node))
    story.event(FAILED)

    verdict = story.records[-1].incident.verdict
    assert [(item.ranks, item.reason) for item in verdict.unread] == [((1,), "the agent on node-1 has left")]


def test_silence_is_not_rounded_before_it_is_held_against_a_death():
    """8.4 s of silence and a death 9.8 s ago: as near as an agent may be late, though 8 s would not be."""
    story = TwoNodes()
    story.stepped_at = story.now
    story.now += 0.6
    story.say("node-0", NodeGone((Gone(0, Role.RANK, -1, 11, Departure.RAISED, 2.0, CLOSED),)))
    story.run(7, "node-0")
    story.now += 0.8
    story.event(FAILED)

    assert [record.incident.verdict.culprit_ranks for record in story.records if record.alarm] == [(1,)]


def test_deaths_with_a_proof_are_alarms_as_before():
    """Nobody waits for patience when the first fault is known."""
    story = Story(replace(LIVES, proof=Proof.STRUCTURAL)).run(10, stepping=True)
    story.send(TIMED_OUT)
    story.run(3)

    assert story.stages() == [Stage.CONFIRMED]
