"""Decide what the coordinator does next. Events in, commands out.

Enters: what agents said, ticks, the end of the job; always with `now` (monotonic seconds) and the unix time for
output. Leaves: questions to agents and incidents to record. Every rule about a job's state lives in this file.
Never here: gRPC, clocks, threads, files, logging.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from typing_extensions import assert_never

from ddetect.coordinator import life
from ddetect.coordinator.events import Ask, Command, Ending, Event, Heard, Lost, Record, Tick
from ddetect.coordinator.gather import join_looks, look_without
from ddetect.coordinator.nodes import SILENT_AFTER_S, Nodes, Pulse
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.watch import Inquiry, Question
from ddetect.correlate.judge import asked_to_end, deaths_in, judge, wants_native
from ddetect.correlate.motion import moved
from ddetect.correlate.rules.consequence import was_asked
from ddetect.correlate.rules.on_purpose import OUTLIVED_S
from ddetect.correlate.usual import stands_s
from ddetect.messages import Evidence, Hello, NodeBeat, NodeGone, NodeRoster, TakeEvidence
from ddetect.model import (
    Cause,
    Gone,
    Look,
    Phase,
    Proof,
    Settings,
    Snapshot,
    Stage,
    Status,
    Verdict,
)

LOOK_TIMEOUT_S = 8.0  # longer than an agent takes at its slowest; then we go on with the answers that came
EMPTY_LOOKS = 3  # questions nobody answers before we judge by the beats alone
DEATH_SETTLES_S = 1.5  # consequences of a death (peers' errors) arrive within this
SURVIVED_S = 10.0  # steps this long after a death: the job goes on without it
ONE_RESTART_S = 60.0  # nodes whose ranks are replaced within this belong to one restart
SLOW_STALL_S = 30.0  # ranks move but the job does not step, or one rank alone stands still
PAUSE_MARGIN = 3.0  # a pause that its framework is known to make must last so much longer
UNDECIDED_MARGIN = 3.0  # an alarm that names nobody must wait longer
# No rank has a probe and nobody waits: a job may do one thing nearly all of its time. Also the most that weak motion
# can stretch a limit.
UNCOUNTED_MARGIN = 10.0


class JobState:
    """One job's state machine."""

    def __init__(
        self,
        job: str,
        settings: Settings,
        *,
        judge: Callable[[Snapshot], Verdict] = judge,
        first_number: int = 1,
    ) -> None:
        self.job = job
        self.settings = settings
        self.nodes = Nodes()
        self.patience = Patience(settings)
        self.attempt = 0
        self.gone: list[tuple[Gone, float]] = []  # with when it happened
        self.watch: Inquiry | None = None
        self.ending: Ending | None = None
        self._verdict_on = judge
        self._number = first_number
        self._requests = 0
        self._question: Question | None = None
        self._deaths_judged = 0
        self._ending_at = -math.inf
        self._restarted: set[str] = set()  # nodes whose ranks are of this attempt
        self._last_now = -math.inf

    # ------------------------------------------------------------ the door

    def on(self, event: Event, *, now: float, unix_ns: int) -> list[Command]:
        """Take one event; say what to do."""
        if self.watch is not None and now - self._last_now > SILENT_AFTER_S:
            self.watch.still_since = now  # we were frozen ourselves: nobody was watched meanwhile
        self._last_now = now
        match event:
            case Heard():
                return self._heard(event, now, unix_ns)
            case Lost():
                self.nodes.node(event.node).connected = False
                if self._question is not None:
                    self._question.missing.discard(event.node)
                return []
            case Tick():
                return self._tick(now, unix_ns)
            case Ending():
                return self._end(event, now, unix_ns)
            case _:
                assert_never(event)

    def _heard(self, event: Heard, now: float, unix_ns: int) -> list[Command]:
        node = self.nodes.node(event.node)
        node.heard_at, node.connected = now, True
        match event.message:
            case Hello():
                return []
            case NodeRoster() as roster:
                return self._take_roster(event.node, roster, now, unix_ns)
            case NodeBeat() as beat:
                self.nodes.take_beat(event.node, beat, now)
            case NodeGone() as told:
                known = {_identity(gone) for gone, _ in self.gone}
                # A process that another node's has replaced may end as it likes.
                news = [
                    gone
                    for gone in told.gone
                    if _identity(gone) not in known and gone.rank not in node.superseded
                ]
                self.gone.extend((gone, now - gone.age_s) for gone in news)
            case Evidence() as evidence:
                question = self._question
                if question is not None and evidence.request == question.request:
                    question.parts.append(look_without(evidence.look, node.superseded))
                    question.missing.discard(event.node)
            case _:
                assert_never(event.message)
        return self._tick(now, unix_ns)

    # ------------------------------------------------------------ time passes

    def _tick(self, now: float, unix_ns: int) -> list[Command]:
        commands: list[Command] = []
        self.nodes.let_go(now)
        question = self._question
        if question is not None and (not question.missing or now - question.asked_at > LOOK_TIMEOUT_S):
            commands += self._take_look(question, now, unix_ns)
        if self.ending is not None and self.ending.exit_code is None and now - self._ending_at > OUTLIVED_S:
            self.ending = None
        pulse = self.nodes.pulse(now)
        if self.watch is None:
            self.watch = self._suspect(pulse, now)
        elif self._ends_by_us():
            return commands  # a rank that raises what we sent it has moved, and is no job that goes on
        elif pulse is not None and self._resumed(self.watch, pulse):
            reason = f"progress resumed after {now - self.watch.since:.1f} s"
            commands += self._close(reason, now, unix_ns, learn=True)
        watch = self.watch
        if watch is not None and self._question is None and now >= watch.next_look_at:
            commands += self._ask(watch, now)
        return commands

    def _ends_by_us(self) -> bool:
        return self.ending is not None and self.ending.by_us

    def _suspect(self, pulse: Pulse | None, now: float) -> Inquiry | None:
        """Is there reason to look closer? What is within limits is learned instead."""
        if self.ending is not None:
            return None
        deaths = self._deaths()
        if len(deaths) > self._deaths_judged:
            gone, at = min(deaths[self._deaths_judged :], key=lambda death: death[1])
            steps = pulse.steps if pulse else 0
            return Inquiry("death", at, Phase.OTHER, steps, gone.rank, now, now)
        if pulse is None or pulse.phase is Phase.PAUSED:
            return None
        self.patience.pace(pulse.steps, pulse.seen_at)
        limit = self.patience.suspect_after_s(pulse.phase, steps=pulse.steps)
        if pulse.leaving:  # a job that ends takes its time, and nobody is waited for
            limit = max(limit, self.settings.startup_s)
        quiet_s = pulse.seen_at - pulse.activity_at
        kind, since = "", -math.inf
        if quiet_s > limit:
            # Progress is a step, if steps were being made until just now; else whatever moved last.
            stepping = pulse.activity_at - pulse.step_at < limit
            kind, since = "activity", pulse.step_at if stepping else pulse.activity_at
        elif self.patience.learned(pulse.steps):
            self.patience.see_gap(pulse.phase, quiet_s)
            slow_limit = max(SLOW_STALL_S, 5 * limit)
            if pulse.step_at > -math.inf and pulse.seen_at - pulse.step_at > slow_limit:
                kind, since = "step", pulse.step_at
            elif pulse.seen_at - pulse.quiet_at > slow_limit and pulse.alive > 1:
                kind, since = "rank", pulse.quiet_at
        return Inquiry(kind, since, pulse.phase, pulse.steps, pulse.quiet_rank, now, now) if kind else None

    def _resumed(self, watch: Inquiry, pulse: Pulse) -> bool:
        match watch.kind:
            case "activity":
                # Not "later than before": ages jitter with the network. Recent activity is what we want.
                return pulse.seen_at - pulse.activity_at < self.settings.floor_s
            case "step":
                return pulse.step_at > watch.since + 0.001
            case "rank":
                return pulse.quiet_rank != watch.rank or pulse.quiet_at > watch.since + 0.001
            case _:
                return pulse.step_at > watch.since + SURVIVED_S  # a spare took over, or it was not needed

    # ------------------------------------------------------------ looking closer

    def _ask(self, watch: Inquiry, now: float) -> list[Command]:
        nodes = self.nodes.to_ask()
        self._requests += 1
        self._question = Question(self._requests, now, set(nodes))
        return [
            Ask(name, TakeEvidence(self._requests, self.nodes.pids_on(name, watch.native))) for name in nodes
        ]

    def _take_look(self, question: Question, now: float, unix_ns: int) -> list[Command]:
        self._question = None
        watch = self.watch
        if watch is None:
            return []
        watch.empty = 0 if question.parts else watch.empty + 1
        if not question.parts and watch.empty < EMPTY_LOOKS:
            watch.next_look_at = now + 1.0  # nobody answered: the agents may be on their way back
            return []
        look = join_looks(question.parts, self.nodes.unheard(now, hung_up=watch.kind == "death"))
        watch.looks = [*watch.looks, look][-self.settings.samples :]
        watch.taken += 1
        watch.snapshot = self._snapshot(watch, watch.looks, now, unix_ns)
        watch.native = wants_native(watch.snapshot)
        if watch.kind == "death":
            hurry = now - watch.since < DEATH_SETTLES_S
        else:
            hurry = watch.taken < self.settings.samples and not watch.empty
        watch.next_look_at = now + (self.settings.sample_gap_s if hurry else watch.relook_after_s())
        return [] if hurry else self._judge(watch, now, unix_ns)

    def _judge(self, watch: Inquiry, now: float, unix_ns: int, *, last: bool = False) -> list[Command]:
        """Say what we know, louder if it is time. `last`: the job has failed, there will be no later moment."""
        assert watch.snapshot is not None
        verdict, shown = self._verdict_on(watch.snapshot), watch.snapshot
        if verdict.status is Status.HEALTHY:
            return self._close("looked closer: the job is moving", now, unix_ns, learn=True)
        if watch.takes_back(verdict) and not last:
            return []
        kept = watch.named is not None and life.stays_named(watch.named[0], verdict, last=last)
        if watch.kind == "death":
            self._deaths_judged = len(self._deaths())
            if asked_to_end(watch.snapshot):
                return self._close("somebody ended the job", now, unix_ns)
        elif watch.named is not None and kept:
            # The snapshot of that verdict is kept too: read again, it gives the same answer.
            verdict, shown = life.with_deaths(watch.named[0], deaths_in(watch.snapshot)), watch.named[1]
        else:
            watch.named = (verdict, shown) if verdict.culprits else None
        before = watch.incident
        if before is None:
            incident = life.opened(self._number, verdict, shown, unix_ns)
            self._number += 1
        else:
            incident = life.rejudged(before, verdict, watch.snapshot, unix_ns)
        alarm = incident.stage is Stage.SUSPECTED and self._is_time(
            watch, verdict, now, unix_ns, last=last, kept=kept
        )
        if alarm:
            incident = life.confirmed(incident, unix_ns)
        watch.incident = incident
        watch.snapshot = watch.told = replace(shown, stage=incident.stage)
        if watch.kind == "death" and alarm:
            watch.next_look_at = math.inf
        # Look again in a while, and surely when an alarm may be due.
        due = self._due_at(watch, verdict)
        if now < due < watch.next_look_at:
            watch.next_look_at = due
        elif incident.stage is Stage.SUSPECTED and watch.last_looks:
            watch.next_look_at = now + watch.last_look_after_s()
        if before is not None and not alarm and life.same_words(before.verdict, verdict):
            return []
        return [Record(incident, watch.snapshot, alarm)]

    def _is_time(
        self, watch: Inquiry, verdict: Verdict, now: float, unix_ns: int, *, last: bool, kept: bool
    ) -> bool:
        """Suspicion is quick, alarm is earned. `kept`: the verdict is older than the looks, they cannot prove it."""
        looked, watch.last_looks = watch.last_looks, 0
        if watch.kind == "death":
            if verdict.proof is Proof.STRUCTURAL:
                return True
            if self.ending is not None and not last:
                return False  # somebody wanted it to end
            if last:
                return verdict.status is not Status.UNDECIDED
        snapshot = watch.snapshot
        assert snapshot is not None
        if kept and last:
            return not asked_to_end(snapshot)
        if watch.kind == "rank" and not verdict.waiting:
            return False  # an evaluator or a server among the ranks: nobody waits for it
        if verdict.proof is Proof.STRUCTURAL and verdict.status is not Status.UNDECIDED and not kept:
            each = (self._verdict_on(self._snapshot(watch, [look], now, unix_ns)) for look in watch.looks)
            return len(watch.looks) >= self.settings.samples and {life.key(v) for v in each} == {
                life.key(verdict)
            }
        ranks = verdict.culprit_ranks
        if not ranks or (verdict.cause is Cause.LEFT_EARLY and not verdict.waiting):
            # Everybody leaves one day, and somebody is last: while anyone moves, the job is ending, not stuck.
            ranks = tuple(int(rank) for rank in snapshot.roster.rank)
        motion = moved(snapshot, ranks)
        if motion.certain:
            watch.still_since = now
        if motion.weak:
            watch.weak_at = now
        watch.still_since = max(watch.still_since, self.nodes.active_at(ranks))
        if now < self._due_at(watch, verdict):
            return False
        watch.last_looks = looked + 1
        return last or watch.kind == "death" or watch.looked_its_last  # the dead do not move between looks

    def _due_at(self, watch: Inquiry, verdict: Verdict) -> float:
        """When patience ends. Weak motion puts that off, and not for ever: a metrics daemon never rests."""
        after_s = self._confirm_after_s(watch, verdict)
        at_most_s = UNCOUNTED_MARGIN * self.patience.confirm_after_s(watch.phase, steps=watch.steps)
        stretched = max(watch.still_since, watch.weak_at) + after_s
        return min(stretched, watch.still_since + max(after_s, at_most_s))

    def _confirm_after_s(self, watch: Inquiry, verdict: Verdict) -> float:
        limit = self.patience.confirm_after_s(watch.phase, steps=watch.steps)
        if watch.snapshot is not None and verdict.proof is Proof.TIME:
            limit = max(limit, PAUSE_MARGIN * stands_s(watch.snapshot, verdict.culprit_ranks))
        alone = not verdict.waiting and verdict.proof is Proof.TIME
        if (alone or not verdict.culprits) and not self.nodes.any_page():
            return limit * UNCOUNTED_MARGIN
        return limit * UNDECIDED_MARGIN if verdict.status is Status.UNDECIDED else limit

    def _snapshot(self, watch: Inquiry, looks: list[Look], now: float, unix_ns: int) -> Snapshot:
        return Snapshot(
            job=self.job,
            attempt=self.attempt,
            world_size=self.nodes.world_size(),
            framework=self.nodes.framework() or Snapshot.framework,
            taken_at_unix_ns=unix_ns,
            stalled_for_s=now - watch.since,
            roster=self.nodes.roster(),
            beats=self.nodes.beats(now),
            looks=tuple(looks),
            gone=tuple(replace(gone, age_s=now - at) for gone, at in self.gone),
            limits=self.patience.limits(),
            settings=self.settings,
        )

    # ------------------------------------------------------------ the end of a watch, of an attempt, of the job

    def _close(self, reason: str, now: float, unix_ns: int, *, learn: bool = False) -> list[Command]:
        """End the watch. A gap that ended by itself (`learn`) was normal, unless something was plainly broken."""
        watch, self.watch, self._question = self.watch, None, None
        if watch is None:
            return []
        lasted = now - watch.since
        incident = watch.incident
        broken = incident is not None and incident.verdict.proof is Proof.STRUCTURAL
        if learn and not broken and watch.kind != "death" and self.patience.learned(watch.steps):
            self.patience.learn(watch.phase, lasted)
        if incident is None or watch.told is None:
            return []
        return [Record(life.closed(incident, reason, lasted, unix_ns, recovered=learn), watch.told)]

    def _end(self, event: Ending, now: float, unix_ns: int) -> list[Command]:
        """Say the last word: a death that nobody asked for is judged with what we have."""
        commands: list[Command] = []
        asked = self.ending is not None  # a signal was passed on before: what died since died as it should
        self.ending, self._ending_at = event, now
        if event.by_us:
            self._question = None  # what is seen from now on says nothing about the hang
        watch = self.watch
        unjudged = len(self._deaths()) > self._deaths_judged
        if watch is not None and watch.kind == "death" and watch.incident is not None:
            unjudged = unjudged or watch.incident.stage is Stage.SUSPECTED  # what only time proves: it is up
        if event.exit_code and not asked and unjudged:
            late = watch
            if late is None or late.kind != "death":
                first = min(at for _, at in self._deaths())
                late = Inquiry("death", first, Phase.OTHER, 0, -1, now, now)
                late.looks = list(watch.looks) if watch is not None else []
            late.looks = [*late.looks[:-1], self._last_look(late, now)]
            late.snapshot = self._snapshot(late, late.looks, now, unix_ns)
            if watch is not None and watch.named is not None:
                verdict = self._verdict_on(late.snapshot)
                if life.stays_named(watch.named[0], verdict, last=True):
                    watch.snapshot, late = late.snapshot, watch  # they died of what we have named
            if late is not watch:
                commands += self._close("a process died", now, unix_ns)
                watch = self.watch = late
            commands += self._judge(late, now, unix_ns, last=True)
        if event.exit_code is not None:
            commands += self._close(event.reason, now, unix_ns)
        elif watch is not None and watch.kind == "death" and watch.incident is None:
            self.watch = None
        return commands

    def _last_look(self, watch: Inquiry, now: float) -> Look:
        """The newest look there is, with who is silent or has left by now."""
        look = watch.looks[-1] if watch.looks else join_looks([])
        silent = self.nodes.unheard(now, hung_up=True)
        known = {rank for item in silent for rank in item.ranks}
        return replace(look, unread=(*(item for item in look.unread if not known & set(item.ranks)), *silent))

    def _deaths(self) -> list[tuple[Gone, float]]:
        """Rank processes that ended as they should not, first to last as told."""
        return [(gone, at) for gone, at in self.gone if gone.is_death and not was_asked(gone)]

    def _take_roster(self, name: str, new: NodeRoster, now: float, unix_ns: int) -> list[Command]:
        """Other processes than before mean a restart: the first node to say so begins an attempt, the rest join it."""
        node = self.nodes.node(name)
        old = node.coming or node.roster
        node.coming = new
        if old is None or _processes(new) - _processes(old):
            self.nodes.claim(name, new, now)
        if old is None or not _replaces(old, new):
            return []
        node.beats, node.since = None, math.inf  # what was heard of the old ranks says nothing of the new
        if self.attempt and name not in self._restarted and now - self.nodes.attempt_at < ONE_RESTART_S:
            self._restarted.add(name)
            ranks = {int(rank) for rank in new.roster.rank}
            pids = {int(pid) for pid in new.roster.pid}
            self.gone = [item for item in self.gone if item[0].rank not in ranks or item[0].pid in pids]
            self._deaths_judged = min(self._deaths_judged, len(self._deaths()))
            return []
        commands = self._close("the job was restarted", now, unix_ns)
        self.ending = None  # whoever asked the ranks to end has new ones now
        self.attempt, self.nodes.attempt_at, self._restarted = self.attempt + 1, now, {name}
        self.gone.clear()
        self._deaths_judged = 0
        return commands


def _identity(gone: Gone) -> tuple[object, ...]:
    return (gone.rank, gone.role, gone.index, gone.pid, gone.how)  # a pid alone repeats across hosts and pods


def _replaces(old: NodeRoster, new: NodeRoster) -> bool:
    """Some process is new, and some of the old ones are no longer there (those that died stay until replaced)."""
    before, after = _processes(old), _processes(new)
    return bool(after - before) and bool(before - after)


def _processes(told: NodeRoster) -> set[tuple[int, int]]:
    return set(zip(told.roster.pid.tolist(), told.roster.start_ticks.tolist(), strict=True))
