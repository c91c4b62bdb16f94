"""The state machine by itself: a job told in messages, time as a number, no clock, no network."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from ddetect.coordinator.events import (
    Ask,
    Command,
    Ending,
    Heard,
    Judge,
    Judged,
    Lost,
    Record,
    Tick,
    Withdraw,
)
from ddetect.coordinator.opinion import Case, form_opinion
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.state import JobState
from ddetect.messages import Evidence, Hello, NodeBeat, NodeGone, NodeRoster, TakeEvidence
from ddetect.model import (
    Beats,
    Cause,
    Culprit,
    Departure,
    Gone,
    Look,
    Phase,
    Proof,
    Role,
    Roster,
    Sample,
    Settings,
    Sighting,
    Stage,
    Status,
    Verdict,
    Waiting,
)

LOADING = Verdict(
    Status.HANG, Cause.DATA_LOADING, Proof.TIME, 0.9, "rank 1 loads", (Culprit(1),), (Waiting((0,), "all_reduce"),)
)  # fmt: skip
STOPPED = Verdict(
    Status.HANG, Cause.PROCESS_STOPPED, Proof.STRUCTURAL, 0.9, "rank 1 is stopped", (Culprit(1),)
)
KILLED = Verdict(Status.STOPPED, Cause.KILLED_BY_SIGNAL, Proof.STRUCTURAL, 0.9, "rank 1 died", (Culprit(1),))
WELL = Verdict(Status.HEALTHY, None, Proof.TIME, 0.9, "all moves")
PATIENCE_S = 60.0


class Story:
    """Plays a two-rank job on one node against the state machine; agents answer at once unless told not to."""

    def __init__(self, verdict: Verdict = LOADING, **settings: float) -> None:
        self.verdict = verdict
        self.job = JobState("job", Settings(**{"patience_s": PATIENCE_S, **settings}))
        self.judge = lambda snapshot: self.verdict
        self.now = 100.0
        self.commands: list[Command] = []
        self.records: list[Record] = []
        self.said: list[Record | Withdraw] = []
        self.hold: list[Case] | None = None  # cases that nobody judges yet
        self.asked = 0
        self.answers = True
        self.has_page = 1
        self.io_bytes = 0
        self.moves = [0, 0]  # bytes of one rank alone
        self.step, self.step_at, self.phase, self.state = 0, 100.0, Phase.OTHER, ord("S")
        self.active_at: float | None = None  # when a counter other than the step moved
        self.send(Hello("node-0", "job"))
        self.roster()

    def roster(self, version: int = 1, start: int = 5) -> None:
        roster = Roster([0, 1], [0, 0], [0, 0], [11, 12], [start, start + 1], ("node-0",))
        self.version = version
        self.send(NodeRoster(version, 2, 0, roster))

    def event(self, event: object) -> None:
        commands = self.job.on(event, now=self.now, unix_ns=int(self.now * 1e9))  # type: ignore[arg-type]
        self.commands += commands
        for command in commands:
            if isinstance(command, Record):
                self.records.append(command)
                self.said.append(command)
            elif isinstance(command, Withdraw):
                self.said.append(command)
            elif isinstance(command, Judge) and self.hold is not None:
                self.hold.append(command.case)
            elif isinstance(command, Judge):
                self.event(Judged(form_opinion(command.case, self.judge)))
            elif isinstance(command, Ask) and isinstance(command.message, TakeEvidence):
                self.asked += 1
                if self.answers:
                    self.send(Evidence(command.message.request, Look(self.sample())))

    def send(self, message: object) -> None:
        self.event(Heard("node-0", message))  # type: ignore[arg-type]

    def sample(self) -> Sample:
        two = [0, 0]
        return Sample(
            [0, 1],
            [1, 1],
            [-1, -1],
            [11, 12],
            two,
            [-1, -1],
            two,
            two,
            [self.io_bytes + more for more in self.moves],
            two,
            (Sighting("S"),),
        )

    def beat(self) -> None:
        age = self.now - self.step_at
        columns = {item.name: [0, 0] for item in fields(Beats)} | {
            "step": [self.step] * 2,
            "step_age_s": [age] * 2 if self.step else [float("inf")] * 2,
            "activity_age_s": [age if self.active_at is None else self.now - self.active_at] * 2,
            "has_page": [self.has_page] * 2,
            "phase": [int(self.phase)] * 2,
            "state": [self.state] * 2,
        }
        self.send(NodeBeat(self.version, Beats(**columns)))

    def run(self, seconds: float, *, stepping: bool = False, beats: bool = True) -> Story:
        """Let time pass in quarter seconds, with a beat each second."""
        for quarter in range(int(seconds * 4)):
            self.now += 0.25
            if stepping:
                self.step, self.step_at = self.step + 5, self.now
            if beats and quarter % 4 == 3:
                self.beat()
            self.event(Tick())
        return self

    def stages(self) -> list[Stage]:
        return [said.incident.stage for said in self.said]


def died(how: Departure = Departure.VANISHED, exception: str = "") -> NodeGone:
    return NodeGone((Gone(1, Role.RANK, -1, 12, how, 0.1, exception),))


def test_job_that_steps_is_left_alone():
    """No question, no incident."""
    story = Story().run(60, stepping=True)

    assert (story.asked, story.records) == (0, [])


def test_stall_of_a_learned_job_is_suspected_within_five_seconds():
    """Three looks, then a verdict on record, without an alarm."""
    story = Story().run(10, stepping=True).run(5)

    assert story.stages() == [Stage.SUSPECTED]
    record = story.records[0]
    assert len(record.snapshot.samples) == 3
    assert record.incident.stalled_for_s <= 5
    assert not record.alarm


def test_job_that_ends_slowly_is_not_suspected_at_once():
    """Tearing down takes seconds; an hour of it is another matter."""
    story = Story().run(10, stepping=True)
    story.phase = Phase.EXITING
    assert story.run(20).records == []

    story.run(20)

    assert story.stages() == [Stage.SUSPECTED]


def test_slow_start_does_not_make_the_steps_look_slow():
    """Ten seconds of imports before the second step say nothing of how long a step takes."""
    patience = Patience(Settings())
    for steps, at in ((0, 100.0), (2, 110.0), (22, 111.0)):
        patience = patience.pace(steps, at)

    assert patience.step_s == pytest.approx(0.05)


def test_time_cause_is_confirmed_only_after_patience():
    """Sixty seconds without motion make the alarm, once."""
    story = Story().run(10, stepping=True).run(58)
    assert story.stages() == [Stage.SUSPECTED]

    story.run(7)

    assert story.stages() == [Stage.SUSPECTED, Stage.CONFIRMED]
    assert [record.alarm for record in story.records] == [False, True]
    story.run(60)
    assert sum(record.alarm for record in story.records) == 1


def test_moving_bytes_hold_the_alarm_back():
    """A slow checkpoint still writes: suspicion, never a page at night."""
    story = Story().run(10, stepping=True)
    for _ in range(120):
        story.io_bytes += 1_000_000
        story.run(1)

    assert set(story.stages()) == {Stage.SUSPECTED}


def test_patience_begins_anew_when_something_moved():
    """Bytes for a minute and a half, then the last fsync: sixty seconds more before anybody is woken."""
    story = Story().run(10, stepping=True)
    for _ in range(85):
        story.io_bytes += 1_000_000
        story.run(1)
    story.run(50)
    assert Stage.CONFIRMED not in story.stages()

    story.run(30)

    assert Stage.CONFIRMED in story.stages()


def test_evaluation_whose_batches_move_is_no_alarm():
    """No step for minutes, but counters move: suspicion at most."""
    story = Story().run(10, stepping=True)
    for _ in range(300):
        story.active_at = story.now
        story.run(1)

    assert Stage.CONFIRMED not in story.stages()


def test_thaw_after_a_freeze_is_no_alarm():
    """Ages in the pages include the time in which everybody was frozen, the coordinator too."""
    story = Story().run(10, stepping=True)
    story.now += 600
    story.run(8).run(10, stepping=True)

    assert Stage.CONFIRMED not in story.stages()


def test_hang_that_resolved_does_not_blind_us():
    """An outage of an hour is not the new normal: what was an alarm teaches no more than patience."""
    story = Story().run(10, stepping=True).run(3600).run(20, stepping=True)
    records = len(story.records)
    story.run(95)

    assert [record.incident.stage for record in story.records[records:]] == [Stage.SUSPECTED]


def test_job_that_survives_its_signal_is_watched_again():
    """SIGTERM may mean "write a checkpoint"; the hang an hour later is still a hang."""
    story = Story().run(10, stepping=True)
    story.event(Ending("the job was asked to end by SIGTERM"))
    story.run(120, stepping=True).run(6)

    assert story.stages() == [Stage.SUSPECTED]


def test_job_that_survives_a_death_is_watched_again():
    """A spare took over: the old death is closed, and the next hang is seen."""
    story = Story(KILLED).run(10, stepping=True)
    story.send(died())
    story.run(60, stepping=True)
    assert story.stages() == [Stage.CONFIRMED, Stage.CLOSED]

    story.verdict = LOADING
    story.run(6)

    assert story.stages()[-1] is Stage.SUSPECTED


def test_rank_without_a_page_is_not_quiet():
    """It has no counters: others step, so the job is well."""
    story = Story().run(10, stepping=True)
    for _ in range(100):
        story.now += 1
        story.step += 20
        columns = {item.name: [0, 0] for item in fields(Beats)} | {
            "step": [story.step, 0],
            "step_age_s": [0.1, float("inf")],
            "activity_age_s": [0.1, float("inf")],
            "has_page": [1, 0],
            "state": [ord("S")] * 2,
        }
        story.send(NodeBeat(1, Beats(**columns)))
        story.event(Tick())

    assert story.records == []


def test_stall_that_no_agent_explains_is_judged_by_its_beats():
    """Agents that beat and do not answer: undecided on record is better than silence."""
    story = Story(Verdict(Status.UNDECIDED, None, Proof.TIME, 0.3, "nobody answered")).run(10, stepping=True)
    story.answers = False
    story.run(60)

    assert story.stages() == [Stage.SUSPECTED]


def test_same_pid_on_two_hosts_is_two_processes():
    """In pods every rank may be pid 69."""
    story = Story().run(10, stepping=True)
    story.send(NodeGone((Gone(3, Role.RANK, -1, 69, Departure.RAISED, 0.1, "ValueError: x"),)))
    story.send(
        NodeGone((Gone(11, Role.RANK, -1, 69, Departure.RAISED, 0.1, "RuntimeError: closed by peer"),))
    )

    assert [gone.rank for gone, _ in story.job.gone] == [3, 11]


def test_two_nodes_of_one_restart_are_one_attempt():
    """The second node's new roster joins the attempt that the first one began, and keeps its deaths."""
    story = Story().run(10, stepping=True)
    far = Roster([2, 3], [0, 0], [0, 0], [21, 22], [5, 6], ("node-1",))
    story.event(Heard("node-1", NodeRoster(1, 4, 0, far)))
    story.roster(2, start=50)
    story.send(NodeGone((Gone(0, Role.RANK, -1, 11, Departure.VANISHED, 0.1),)))
    new = Roster([2, 3], [0, 0], [0, 0], [31, 32], [70, 71], ("node-1",))
    story.event(Heard("node-1", NodeRoster(2, 4, 1, new)))

    assert story.job.attempt == 1
    assert [gone.rank for gone, _ in story.job.gone] == [0]


def test_renumbered_ranks_are_another_attempt():
    """After a membership change the same node holds other ranks in other processes."""
    story = Story().run(10, stepping=True)
    roster = Roster([2, 3], [0, 0], [0, 0], [31, 32], [70, 71], ("node-0",))
    story.send(NodeRoster(2, 4, 0, roster))

    assert story.job.attempt == 1


def test_structural_cause_is_confirmed_when_three_looks_agree():
    """A stopped process needs no patience."""
    story = Story(STOPPED).run(10, stepping=True).run(6)

    assert story.stages() == [Stage.CONFIRMED]
    assert story.records[0].incident.confirmed_at_unix_ns is not None


def test_progress_withdraws_the_suspicion_and_the_gap_is_learned():
    """The same pause a second time is not even suspected."""
    story = Story().run(10, stepping=True).run(8).run(5, stepping=True)
    assert story.stages() == [Stage.SUSPECTED, Stage.WITHDRAWN]
    assert "progress resumed" in story.said[-1].reason

    story.run(8).run(5, stepping=True)

    assert story.stages() == [Stage.SUSPECTED, Stage.WITHDRAWN]


def test_gap_in_one_phase_does_not_excuse_another():
    """A long evaluation teaches nothing about data loading."""
    story = Story().run(10, stepping=True).run(8).run(5, stepping=True)
    story.phase = Phase.DATA
    story.run(5, stepping=True).run(5)

    assert story.stages() == [Stage.SUSPECTED, Stage.WITHDRAWN, Stage.SUSPECTED]


def test_slow_start_is_not_suspected_before_the_startup_limit():
    """Imports and compilers are given their time."""
    story = Story(startup_s=30).run(25)
    assert story.asked == 0

    story.run(10)

    assert story.stages() == [Stage.SUSPECTED]


def test_start_up_is_an_alarm_after_patience_while_nothing_runs():
    """Before the first steps nothing is learned yet."""
    story = Story(startup_s=10, patience_s=20).run(18)
    assert story.stages() == [Stage.SUSPECTED]

    story.run(10)

    assert story.stages() == [Stage.SUSPECTED, Stage.CONFIRMED]


def test_silent_agent_is_not_a_stuck_job():
    """No beats, no verdict: the watcher is blind and says so elsewhere."""
    story = Story().run(10, stepping=True).run(60, beats=False)

    assert story.records == []


def test_lost_agent_does_not_stop_a_look():
    """A question is judged with the answers that came."""
    story = Story().run(10, stepping=True)
    story.answers = False
    story.run(3)
    assert story.asked == 1
    story.event(Lost("node-0"))

    story.answers = True
    story.send(Hello("node-0", "job"))
    story.roster(2)
    story.run(8)

    assert story.stages() == [Stage.SUSPECTED]


def test_paused_job_is_left_alone():
    """The user said `ddetect_probe.pause("eval")`."""
    story = Story().run(10, stepping=True)
    story.phase = Phase.PAUSED
    story.run(120)

    assert story.records == []


def test_job_that_somebody_stopped_as_a_whole_is_left_alone():
    """Ctrl-Z stops every rank; one stopped rank is a fault, all of them are a wish."""
    story = Story().run(10, stepping=True)
    story.state = ord("T")
    story.run(120)

    assert story.records == []


def test_rank_that_never_moved_is_as_old_as_our_sight_of_it():
    """Without a page there is no activity to measure from; the stall still has a beginning."""
    story = Story(startup_s=10)
    for _ in range(20):
        story.now += 1
        columns = {item.name: [0, 0] for item in fields(Beats)} | {
            "step_age_s": [float("inf")] * 2,
            "activity_age_s": [float("inf")] * 2,
            "state": [ord("S")] * 2,
        }
        story.send(NodeBeat(1, Beats(**columns)))

    assert story.stages() == [Stage.SUSPECTED]
    assert 10 <= story.records[0].incident.stalled_for_s < 15


def test_ranks_ended_on_a_hang_are_no_second_incident():
    """--on-hang=stop kills them: that is not news, and a restart is watched again."""
    story = Story(STOPPED).run(10, stepping=True).run(6)
    story.event(Ending("ddetect ended the ranks"))
    story.send(died())
    story.run(3)
    assert story.stages() == [Stage.CONFIRMED]

    story.roster(2, start=50)
    story.step = 0
    story.run(10, stepping=True).run(6)

    assert story.stages() == [Stage.CONFIRMED, Stage.CLOSED, Stage.CONFIRMED]


def test_rank_that_raises_what_we_sent_is_no_progress():
    """--on-hang=stop: a step ends with our sentence, counters move once more, and the verdict on the hang stays."""
    story = Story(STOPPED).run(10, stepping=True).run(6)
    story.event(Ending("ddetect ended the ranks", by_us=True))
    story.run(2, stepping=True)
    story.send(died())
    story.run(3)
    story.event(Ending("the job ended with exit code 137", 137))

    assert story.stages() == [Stage.CONFIRMED, Stage.CLOSED]
    closed = story.records[-1].incident
    assert (closed.verdict, closed.closed.recovered) == (story.records[0].incident.verdict, False)


def test_look_that_finds_the_job_moving_records_nothing():
    """A suspicion that its own looks refute is forgotten."""
    story = Story(WELL).run(10, stepping=True).run(5)

    assert story.records == []


def test_death_of_a_rank_is_an_alarm_within_seconds():
    """Nobody waits for patience when a process is gone."""
    story = Story(KILLED).run(10, stepping=True)
    story.send(died())
    story.run(3)

    assert story.stages() == [Stage.CONFIRMED]
    assert story.records[0].alarm


def test_death_before_the_job_ends_is_judged_at_the_end():
    """torchrun may be faster than our looks."""
    story = Story(KILLED).run(10, stepping=True)
    story.send(died())
    story.event(Ending("the job ended with exit code 1", 1))

    assert story.stages() == [Stage.CONFIRMED, Stage.CLOSED]


@pytest.mark.parametrize("told", [died(Departure.EXITED), died(Departure.RAISED, "KeyboardInterrupt: ")])
def test_orderly_ends_are_no_incident(told):
    """Exiting, or being interrupted by the user, is not a fault."""
    story = Story(KILLED).run(10, stepping=True)
    story.send(told)
    story.event(Ending("the job ended with exit code 1", 1))

    assert story.records == []


def test_death_after_a_signal_to_the_job_is_no_incident():
    """Who asks the job to stop is not told that it stopped."""
    story = Story(KILLED).run(10, stepping=True)
    story.event(Ending("the job was asked to end by SIGTERM"))
    story.send(died())
    story.run(3)
    story.event(Ending("the job ended with exit code 143", 143))

    assert story.records == []


def test_death_in_a_job_that_ends_well_is_no_incident():
    """os._exit(0) looks like a death until the launcher says the job succeeded."""
    story = Story(KILLED).run(10, stepping=True)
    story.send(died())
    story.event(Ending("the job ended with exit code 0", 0))

    assert story.records == []


def test_open_hang_is_closed_when_the_job_ends():
    """The folder says how it ended."""
    story = Story().run(10, stepping=True).run(5)
    story.event(Ending("the job was asked to end by SIGTERM"))
    story.event(Ending("the job ended with exit code 143", 143))

    assert story.stages() == [Stage.SUSPECTED, Stage.CLOSED]


def test_restart_closes_the_incident_and_counts_the_attempt():
    """Ranks in other processes are another attempt; what was learned is kept."""
    story = Story().run(10, stepping=True).run(5)
    story.roster(2, start=50)
    story.step = 0
    story.run(2, stepping=True)

    assert story.job.attempt == 1
    assert story.stages() == [Stage.SUSPECTED, Stage.CLOSED]
    assert story.job.patience.longest_s


def test_changed_verdict_keeps_what_was_said_before():
    """History tells the reader that we changed our mind."""
    story = Story().run(10, stepping=True).run(5)
    story.verdict = STOPPED
    story.run(12)

    incident = story.records[-1].incident
    assert incident.verdict is STOPPED
    assert [said.cause for said in incident.history] == [Cause.DATA_LOADING]


def test_rank_that_stands_still_alone_is_noticed():
    """Others step on; one rank has not moved for long."""
    story = Story().run(10, stepping=True)
    for _ in range(60):
        story.now += 1
        story.step += 20
        columns = {item.name: [0, 0] for item in fields(Beats)} | {
            "step": [story.step, 50],
            "step_age_s": [0.1, story.now - 110],
            "activity_age_s": [0.1, story.now - 110],
            "state": [ord("S")] * 2,
        }
        story.send(NodeBeat(1, Beats(**columns)))
        story.event(Tick())

    assert story.stages()[:1] == [Stage.SUSPECTED]


BUSY = Verdict(Status.HANG, Cause.USER_CODE, Proof.TIME, 0.5, "both are busy", (Culprit(0), Culprit(1)))


@pytest.mark.parametrize("verdict", [BUSY, replace(BUSY, cause=Cause.ALL_ENTERED_NONE_LEFT, culprits=())])
def test_alarm_about_nobody_in_particular_is_late_without_a_probe(verdict):
    """Nobody counts steps and nobody waits: looks that are alike may be a job that does one thing all the time."""
    story = Story(verdict)
    story.has_page = 0
    story.run(10, stepping=True).run(300)
    assert story.stages() == [Stage.SUSPECTED]

    assert Stage.CONFIRMED in story.run(330).stages()


def test_culprit_that_others_wait_for_is_confirmed_after_patience_also_without_a_probe():
    """Somebody stands out, and somebody waits."""
    story = Story(replace(BUSY, culprits=(Culprit(1),), waiting=(Waiting((0,), "all_reduce"),)))
    story.has_page = 0

    assert Stage.CONFIRMED in story.run(10, stepping=True).run(70).stages()


LEFT = Verdict(
    Status.HANG, Cause.LEFT_EARLY, Proof.TIME, 0.5, "rank 1 has left its process group", (Culprit(1),)
)
LOCKED = Verdict(Status.HANG, Cause.PYTHON_LOCK, Proof.TIME, 0.8, "rank 0 waits for a lock", (Culprit(0),))


@pytest.mark.parametrize("cause", [Cause.PYTHON_LOCK, Cause.DATA_LOADING, Cause.BUILDING, Cause.FILE_IO])
def test_nobody_waits_and_nobody_counts_is_late_whatever_the_cause(cause):
    """A main thread that waits for the thread with the loop looks like this for hours."""
    story = Story(replace(LOCKED, cause=cause))
    story.has_page = 0

    assert Stage.CONFIRMED not in story.run(10, stepping=True).run(300).stages()
    assert Stage.CONFIRMED in story.run(330).stages()


def test_who_leaves_while_another_rank_moves_is_no_alarm():
    """The job ends: rank 0 still exports, the others are done and nobody waits for them."""
    story = Story(LEFT).run(10, stepping=True)
    for _ in range(120):
        story.moves[0] += 10_000_000
        story.run(1)
    assert Stage.CONFIRMED not in story.stages()

    assert Stage.CONFIRMED in story.run(10 * PATIENCE_S + 15).stages()


def test_who_left_and_is_waited_for_is_an_alarm_whoever_else_moves():
    """Somebody waits for it in vain: the culprit alone is asked."""
    story = Story(replace(LEFT, waiting=(Waiting((0,), "all_reduce"),))).run(10, stepping=True)
    for _ in range(75):
        story.moves[0] += 10_000_000
        story.run(1)

    assert Stage.CONFIRMED in story.stages()
