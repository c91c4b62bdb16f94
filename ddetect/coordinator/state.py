"""Decide what the coordinator does next. Events in, commands out.

Enters: what agents said, ticks, opinions, the end of the job; always with `now` (monotonic seconds) and the unix time
for output. Leaves: questions to agents, cases to judge, incidents to record. When there is reason to look closer the
triggers say, what becomes of an incident says the table in life.py; here they are joined. An event that raises is
undone: every value here is replaced and never changed. Never here: gRPC, clocks, threads, files, logging.
"""

from __future__ import annotations

import math
from dataclasses import replace
from signal import Signals

from typing_extensions import assert_never

from ddetect.coordinator import life
from ddetect.coordinator.departed import Departures
from ddetect.coordinator.due import due_at
from ddetect.coordinator.events import (
    Ask,
    Command,
    Ending,
    Event,
    Heard,
    Judge,
    Judged,
    Lost,
    Record,
    Tick,
    Withdraw,
)
from ddetect.coordinator.facts import Facts
from ddetect.coordinator.gather import look_without
from ddetect.coordinator.life import Turn
from ddetect.coordinator.nodes import SILENT_AFTER_S, Nodes
from ddetect.coordinator.opinion import Case, Opinion, key
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.triggers import DEATH, TRIGGERS
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import Question, Watch
from ddetect.correlate.rules.on_purpose import OUTLIVED_S
from ddetect.frameworks import FRAMEWORKS
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.general import GENERAL
from ddetect.messages import (
    Evidence,
    Hello,
    JobEnds,
    NodeBeat,
    NodeGone,
    NodeRoster,
    RanksEnded,
    TakeEvidence,
)
from ddetect.model import Gone, Look, Phase, Proof, Settings, Snapshot, Stage, Status, Unread, Verdict

LOOK_TIMEOUT_S = 8.0  # longer than an agent takes at its slowest; then we go on with the answers that came
EMPTY_LOOKS = 3  # questions nobody answers before we judge by the beats alone
ONE_RESTART_S = 60.0  # nodes whose ranks are replaced within this belong to one restart
MOVES_FOR_S = 1.0


class JobState:
    """One job's state machine."""

    def __init__(self, job: str, settings: Settings, *, first_number: int = 1) -> None:
        self.job = job
        self.settings = settings
        self.nodes = Nodes()
        self.patience = Patience(settings)
        self.attempt = 0
        self.departures = Departures()
        self.watch: Watch | None = None
        self.ending: Ending | None = None
        self.number = first_number
        self.requests = 0
        self._question: Question | None = None
        self.tickets = 0
        self._case = 0  # the ticket of the case that is being judged; 0 if none is
        self._leaving: tuple[Turn, str] | None = (
            None  # the last judgement is awaited, then this is why it is over
        )
        self.ending_at = -math.inf
        self.restarted: frozenset[str] = frozenset()  # nodes whose ranks are of this attempt
        self.last_now = -math.inf

    # ------------------------------------------------------------ the door

    def on(self, event: Event, *, now: float, unix_ns: int) -> list[Command]:
        """Take one event; say what to do. If it raises, nothing has happened."""
        before, undo_nodes = dict(self.__dict__), self.nodes.begin()
        try:
            return self._on(event, now, unix_ns)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            undo_nodes()
            if isinstance(event, Judged):
                self._case = (
                    0  # nobody waits for an opinion that could not be taken in: the next look is judged
                )
            raise

    def _on(self, event: Event, now: float, unix_ns: int) -> list[Command]:
        if self.watch is not None and now - self.last_now > SILENT_AFTER_S:
            # We were frozen ourselves: nobody was watched meanwhile.
            self.watch = replace(self.watch, still_since=now)
        self.last_now = now
        match event:
            case Heard():
                return self._heard(event, now, unix_ns)
            case Lost():
                self.nodes.change(event.node, connected=False)
                if self._question is not None:
                    self._question = replace(self._question, missing=self._question.missing - {event.node})
                return []
            case Tick():
                return self._tick(now, unix_ns)
            case Judged():
                return self._judged(event.opinion, now, unix_ns)
            case Ending():
                return self._end(event, now, unix_ns) if event.is_over else self._wish(event, now, unix_ns)
            case _:
                assert_never(event)

    def _heard(self, event: Heard, now: float, unix_ns: int) -> list[Command]:
        node = self.nodes.change(event.node, heard_at=now, connected=True)
        match event.message:
            case Hello():
                return []
            case NodeRoster() as roster:
                return self._take_roster(event.node, roster, now, unix_ns)
            case NodeBeat() as beat:
                self.nodes.take_beat(event.node, beat, now)
            case NodeGone() as told:
                self.departures = self.departures.hear(told.gone, now, replaced=node.superseded)
                if self.ending is not None and not self.ending.is_over:
                    return self._excuse(now, unix_ns)
            case Evidence() as evidence:
                self._take_evidence(event.node, evidence)
            case JobEnds() as told_end:
                # The last word comes from the launcher that started us, when it ends us: nodes end one by one.
                if told_end.exit_code is None:
                    return self._wish(
                        Ending(asked_by(told_end.signal)), now, unix_ns, at=now - told_end.age_s
                    )
            case RanksEnded() as ended:
                return self._take_ended(event.node, ended, unix_ns)
            case _:
                assert_never(event.message)
        return self._tick(now, unix_ns)

    def _take_evidence(self, node: str, evidence: Evidence) -> None:
        """A part of the look that is open; what comes too late is kept for the next."""
        look = look_without(evidence.look, set(self.nodes.node(node).superseded))
        question = self._question
        if question is not None and evidence.request == question.request:
            self._question = replace(
                question, parts=(*question.parts, (node, look)), missing=question.missing - {node}
            )
        elif self.watch is not None and evidence.request >= self.watch.first_request:
            others = tuple(part for part in self.watch.late if part[0] != node)
            self.watch = replace(self.watch, late=(*others, (node, look)))

    # ------------------------------------------------------------ time passes

    def _tick(self, now: float, unix_ns: int) -> list[Command]:
        commands: list[Command] = []
        self.nodes.let_go(now)
        question = self._question
        if question is not None and (not question.missing or now - question.asked_at > LOOK_TIMEOUT_S):
            commands += self._take_look(question, now, unix_ns)
        self._outlive(now)
        facts = self._facts(now)
        if self.watch is None:
            self._suspect(facts, now)
        elif self.ending is None and self._leaving is None and self._goes_on(self.watch, facts, now):
            lasted = f"progress resumed after {now - self.watch.since:.1f} s"
            commands += self._finish(Turn.MOVES, lasted, now, unix_ns)
        watch = self.watch
        idle = self._question is None and not self._case and self.ending is None
        if watch is not None and idle and now >= watch.next_look_at:
            commands += self._ask(watch, now)
        return commands

    def _outlive(self, now: float) -> None:
        """A job that survives the wish for its end is watched again, as if it had just begun to stand."""
        if self.ending is None or self.ending.is_over or now - self.ending_at <= OUTLIVED_S:
            return
        self.ending = None
        if self.watch is not None:
            self.watch = replace(self.watch, still_since=now)

    def _suspect(self, facts: Facts, now: float) -> None:
        """Is there reason to look closer? What is within limits is learned instead."""
        if self.ending is not None:
            return
        pulse = facts.pulse
        paused = pulse is None or pulse.phase is Phase.PAUSED
        if pulse is not None and not paused and not facts.deaths:
            self.patience = self.patience.pace(pulse.steps, pulse.seen_at)
            facts = replace(facts, patience=self.patience)
            if facts.quiet_s <= facts.quiet_limit_s and self.patience.learned(pulse.steps):
                self.patience = self.patience.see_gap(pulse.phase, facts.quiet_s)
        for name, trigger in TRIGGERS.items():
            found = trigger.suspect(facts) if name == DEATH or not paused else None
            if found is not None:
                self.watch = _watch(name, found, now)
                return

    def _goes_on(self, watch: Watch, facts: Facts, now: float) -> bool:
        """Whether it moved, and moved again: who raises moves once more, and so does who leaves or is interrupted."""
        pulse = facts.pulse
        if pulse is None or not TRIGGERS[watch.trigger].is_over(watch, facts):
            return False
        since = min(watch.moves_since, pulse.activity_at)
        if since != watch.moves_since:
            self.watch = replace(watch, moves_since=since)
        dies = pulse.exiting or any(at > watch.since for _, at in facts.deaths)
        return pulse.activity_at - since >= MOVES_FOR_S and (watch.trigger == DEATH or not dies)

    def _facts(self, now: float) -> Facts:
        return Facts(
            self.settings,
            self.nodes,
            self.patience,
            self.nodes.pulse(now),
            self.departures.open,
            self.ending,
        )

    @property
    def _framework(self) -> Framework:
        return FRAMEWORKS.get(self.nodes.framework() or Snapshot.framework, GENERAL)

    # ------------------------------------------------------------ looking closer

    def _ask(self, watch: Watch, now: float) -> list[Command]:
        nodes = self.nodes.to_ask()
        self.requests += 1
        self._question = Question(self.requests, now, self.nodes.to_wait_for(nodes, now))
        if not watch.first_request:
            self.watch = replace(watch, first_request=self.requests)
        return [
            Ask(name, TakeEvidence(self.requests, self.nodes.pids_on(name, watch.native))) for name in nodes
        ]

    def _take_look(self, question: Question, now: float, unix_ns: int) -> list[Command]:
        """The answers are in: have them judged."""
        self._question = None
        watch = self.watch
        if watch is None:
            return []
        told = {node for node, _ in question.parts}
        parts = [*question.parts, *(part for part in watch.late if part[0] not in told)]
        self.watch = watch = replace(watch, empty=0 if parts else watch.empty + 1, late=())
        if not parts and watch.empty < EMPTY_LOOKS:
            # Nobody answered: the agents may be on their way back.
            self.watch = replace(watch, next_look_at=now + 1.0)
            return []
        decide = TRIGGERS[watch.trigger].decides(watch, self._facts(now), now)
        unread = self.nodes.unheard(now, hung_up=watch.trigger == DEATH)
        return [
            self._hand_out(
                watch, now, unix_ns, parts=tuple(look for _, look in parts), unread=unread, decide=decide
            )
        ]

    def _hand_out(
        self,
        watch: Watch,
        now: float,
        unix_ns: int,
        *,
        parts: tuple[Look, ...] = (),
        unread: tuple[Unread, ...] = (),
        decide: bool = True,
        last: bool = False,
    ) -> Judge:
        self.tickets += 1
        self._case = self.tickets
        stage = watch.incident.stage if watch.incident is not None else Stage.SUSPECTED
        snapshot = replace(self._snapshot(watch, now, unix_ns), stage=stage)
        error = bool(self.departures.errors(self._framework))
        return Judge(Case(self._case, snapshot, parts, unread, watch.alone, decide, last, error))

    def _hand_out_last(self, watch: Watch, now: float, unix_ns: int) -> Judge:
        """There will be no other look: the newest there is, with who is silent or has left by now."""
        silent = self.nodes.unheard(now, hung_up=True)
        if not watch.looks:
            return self._hand_out(watch, now, unix_ns, unread=silent, last=True)
        known = {rank for item in silent for rank in item.ranks}
        newest = watch.looks[-1]
        unread = (*(item for item in newest.unread if not known & set(item.ranks)), *silent)
        looks = (*watch.looks[:-1], replace(newest, unread=unread))
        self.watch = watch = replace(watch, looks=looks, alone=(*watch.alone[:-1], None))
        return self._hand_out(watch, now, unix_ns, last=True)

    def _judged(self, opinion: Opinion, now: float, unix_ns: int) -> list[Command]:
        """An opinion came back. One of a watch that is over by now, or from before a wish, says nothing any more."""
        watch = self.watch
        if opinion.ticket != self._case:
            return []
        self._case = 0
        if watch is None:
            return []
        watch = replace(
            watch,
            looks=opinion.snapshot.looks,
            alone=opinion.alone,
            taken=watch.taken + 1,
            native=opinion.native,
        )
        if opinion.verdict is None:
            self.watch = replace(watch, next_look_at=now + self.settings.sample_gap_s)
            return []
        commands = self._conclude(watch.looking_again(now), opinion, opinion.verdict, now, unix_ns)
        if opinion.last and self._leaving is not None:
            commands += self._finish(*self._leaving, now, unix_ns)
        return commands

    def _conclude(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, now: float, unix_ns: int
    ) -> list[Command]:
        """Say what we know, louder if it is time."""
        self.watch = watch
        if verdict.status is Status.HEALTHY:
            return self._finish(Turn.MOVES, "looked closer: the job is moving", now, unix_ns)
        if watch.is_confirmed:
            differs = watch.differs(verdict)
            self.watch = watch = replace(watch, other=key(verdict))
            if differs and not opinion.last:
                return []
        facts = self._facts(now)
        shown, kept = opinion.snapshot, False
        if watch.trigger == DEATH:
            self.departures = self.departures.explain(self.departures.open)
            if opinion.asked:
                return self._finish(Turn.ENDS, "somebody ended the job", now, unix_ns)
        elif verdict.status is Status.STOPPED:
            kept = opinion.asked or self._explains(watch, verdict, opinion)
            if not kept:
                return self._die(watch, opinion, verdict, now, unix_ns)
            self.departures = self.departures.explain(self.departures.open)
        if kept and watch.named is not None:
            # The snapshot of that verdict is kept too: read again, it gives the same answer.
            verdict, shown = life.with_deaths(watch.named[0], opinion.deaths), watch.named[1]
        elif kept:
            return []  # somebody ended what nobody had explained yet
        elif watch.trigger != DEATH:
            watch = replace(watch, named=(verdict, shown) if verdict.culprits else None)
        before = watch.incident
        incident = life.said(before, self.number, verdict, opinion.snapshot, unix_ns)
        alarm = False
        if incident.stage is Stage.SUSPECTED:
            trigger = TRIGGERS[watch.trigger]
            watch, alarm = trigger.is_time(watch, opinion, verdict, facts, now, kept=kept)
        if alarm:
            incident = life.proven(incident, unix_ns)
        told = replace(shown, stage=incident.stage)
        self.watch = _next_look(replace(watch, incident=incident, told=told), verdict, alarm, facts, now)
        deaths_added = kept and before is not None and before.verdict.evidence != verdict.evidence
        known = before is not None and life.same_words(before.verdict, verdict) and not deaths_added
        return [] if known and not alarm else [Record(incident, told, alarm)]

    def _explains(self, watch: Watch, verdict: Verdict, opinion: Opinion) -> bool:
        named = watch.named[0] if watch.named is not None else None
        return life.explains(
            named, confirmed=watch.is_confirmed, verdict=verdict, origin=opinion.error, last=opinion.last
        )

    def _die(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, now: float, unix_ns: int
    ) -> list[Command]:
        """Ranks died, and what is open does not explain it: that is an incident of its own."""
        leaving, commands = self._leaving, self._finish(Turn.REPLACED, "a process died", now, unix_ns)
        found = TRIGGERS[DEATH].suspect(self._facts(now)) or Suspicion(watch.since, watch.phase, watch.steps)
        died = replace(
            _watch(DEATH, found, now),
            looks=watch.looks,
            alone=watch.alone,
            taken=watch.taken,
            native=watch.native,
        )
        self._leaving = leaving
        return commands + self._conclude(died.looking_again(now), opinion, verdict, now, unix_ns)

    def _snapshot(self, watch: Watch, now: float, unix_ns: int) -> Snapshot:
        return Snapshot(
            job=self.job,
            attempt=self.attempt,
            world_size=self.nodes.world_size(),
            framework=self.nodes.framework() or Snapshot.framework,
            taken_at_unix_ns=unix_ns,
            stalled_for_s=now - watch.since,
            roster=self.nodes.roster(),
            beats=self.nodes.beats(now),
            looks=watch.looks,
            gone=tuple(replace(gone, age_s=now - at) for gone, at in self.gone),
            limits=self.patience.limits(),
            settings=self.settings,
        )

    @property
    def gone(self) -> tuple[tuple[Gone, float], ...]:
        """Everybody who ended, with when."""
        return self.departures.all

    # ------------------------------------------------------------ the end of a watch, of an attempt, of the job

    def _finish(self, turn: Turn, reason: str, now: float, unix_ns: int) -> list[Command]:
        """End the watch. A gap that ended by itself was normal, unless something was plainly broken."""
        watch, self.watch, self._question = self.watch, None, None
        self._case, self._leaving = 0, None
        if watch is None:
            return []
        lasted = now - watch.since
        incident = watch.incident
        broken = incident is not None and incident.verdict.proof is Proof.STRUCTURAL
        if (
            turn is Turn.MOVES
            and not broken
            and watch.trigger != DEATH
            and self.patience.learned(watch.steps)
        ):
            self.patience = self.patience.learn(watch.phase, lasted)
        if incident is None or watch.told is None:
            return []
        command = life.over(incident, watch.told, turn, reason, lasted, unix_ns)
        if not isinstance(command, Withdraw):
            self.number = incident.number + 1
        return [command]

    def _wish(self, event: Ending, now: float, unix_ns: int, *, at: float | None = None) -> list[Command]:
        """Somebody wants the job to end: what dies now dies as it should. A fault from before is judged at once."""
        at = now if at is None else at
        if now - at > OUTLIVED_S:
            return []  # told again after a reconnect, and the job has outlived it
        if self.ending is not None:
            if (
                not self.ending.is_over
            ):  # a launcher says it until the job is gone; another wish is another minute
                self.ending_at = max(self.ending_at, at) if at > self.ending_at + 1.0 else self.ending_at
            return []
        self.ending = event
        self.ending_at, self._question = at, None
        if self._leaving is None:
            self._case = 0  # what is seen from now on says nothing about the hang
        return self._excuse(now, unix_ns)

    def _excuse(self, now: float, unix_ns: int) -> list[Command]:
        """What died of the wish is explained; a fault from before, whenever it is heard, is judged now."""
        assert self.ending is not None
        if self.ending.by_us:
            self.departures = self.departures.explain(self.departures.open)
            return []
        self.departures = self.departures.ended_by(self.ending_at, self._framework)
        watch = self.watch
        if self._leaving is not None or self._case:
            return []  # a last judgement is on its way
        if self.departures.open:
            watch = self.watch = watch or self._watch_deaths(now)
            return [self._hand_out_last(watch, now, unix_ns)]
        if watch is not None and watch.trigger == DEATH and watch.incident is None:
            self.watch = None
        return []

    def _end(self, event: Ending, now: float, unix_ns: int) -> list[Command]:
        """Say the last word: a death that nobody asked for is judged with what we have, and then it is over."""
        wish, self.ending = self.ending, event
        asked = wish is not None and not wish.is_over
        reason = f"{wish.reason}; {event.reason}" if wish is not None and asked else event.reason
        turn = Turn.ENDS_WELL if event.exit_code == 0 and not asked else Turn.ENDS
        watch = self.watch
        if wish is not None and wish.is_over:
            return self._finish(turn, reason, now, unix_ns)  # told twice: nobody waits any longer
        if self._leaving is not None or (
            asked and self._case and watch is not None and watch.trigger == DEATH
        ):
            self._leaving = (turn, reason)  # its last judgement is on the way
            return []
        failed = event.exit_code != 0 or self.departures.errors(self._framework)
        if failed and not asked and self._died_unheard():
            self._leaving = (turn, reason)
            watch = self.watch = watch or self._watch_deaths(now)
            return [self._hand_out_last(watch, now, unix_ns)]
        return self._finish(turn, reason, now, unix_ns)

    def _died_unheard(self) -> bool:
        """Whether ranks died and nobody was told: not judged yet, or of a suspicion whose time is up by that."""
        watch = self.watch
        if self.departures.open or watch is None or watch.incident is None:
            return bool(self.departures.open)
        return watch.incident.stage is Stage.SUSPECTED and bool(self.departures.deaths)

    def _watch_deaths(self, now: float) -> Watch:
        found = TRIGGERS[DEATH].suspect(self._facts(now))
        assert found is not None
        return _watch(DEATH, found, now)

    def _take_ended(self, name: str, ended: RanksEnded, unix_ns: int) -> list[Command]:
        """We ended the ranks of a node: what would not die, and what was left on purpose, is evidence."""
        watch = self.watch
        if watch is None or watch.incident is None or watch.told is None:
            return []
        lines = [f"{what} on {name} could not be ended" for what in ended.alive]
        lines += [f"{what} on {name} was left: it has a session of its own" for what in ended.left]
        if not lines:
            return []
        verdict = life.with_deaths(watch.incident.verdict, tuple(lines))
        incident = life.said(watch.incident, self.number, verdict, watch.told, unix_ns)
        self.watch = replace(watch, incident=incident)
        return [Record(incident, watch.told)]

    def _take_roster(self, name: str, new: NodeRoster, now: float, unix_ns: int) -> list[Command]:
        """Other processes than before mean a restart: the first node to say so begins an attempt, the rest join it."""
        node = self.nodes.node(name)
        old = node.coming or node.roster
        if old is None or not _replaces(old, new):
            self.nodes.change(name, coming=new)
            if old is None or _processes(new) - _processes(old):
                self.nodes.claim(name, new, now)
            return []
        joins = (
            self.attempt > 0 and name not in self.restarted and now - self.nodes.attempt_at < ONE_RESTART_S
        )
        # Judged as the job was before: afterwards nobody who died is missed any more.
        commands = [] if joins else self._end_attempt(now, unix_ns)
        # What was heard of the old ranks says nothing of the new.
        self.nodes.change(name, coming=new, beats=None, since=math.inf)
        self.nodes.claim(name, new, now)
        if joins:
            self.restarted |= {name}
            ranks = {int(rank) for rank in new.roster.rank}
            pids = {int(pid) for pid in new.roster.pid}
            self.departures = self.departures.without(ranks, pids)
            return commands
        self.ending = None  # whoever asked the ranks to end has new ones now
        self.attempt, self.nodes.attempt_at = self.attempt + 1, now
        self.restarted, self.departures = frozenset({name}), Departures()
        return commands

    def _end_attempt(self, now: float, unix_ns: int) -> list[Command]:
        """Its ranks are replaced: what ended them is judged with what we have."""
        why = (Turn.ENDS, "the job was restarted")
        if self._leaving is not None or self.ending is not None or not self._died_unheard():
            return self._finish(*why, now, unix_ns) if self._leaving is None else []
        watch = self.watch = self.watch or self._watch_deaths(now)
        self._question, self._leaving = None, why
        return [self._hand_out_last(watch, now, unix_ns)]


def asked_by(number: int) -> str:
    """Who ended the job, in words that stay the same however often it is told."""
    try:
        name = Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"the job was asked to end by {name}"


def _watch(trigger: str, found: Suspicion, now: float) -> Watch:
    return Watch(trigger, found.since, found.phase, found.steps, found.rank, now, now)


def _next_look(watch: Watch, verdict: Verdict, alarm: bool, facts: Facts, now: float) -> Watch:
    """Look again in a while, and surely when an alarm may be due; at the dead nobody looks twice."""
    if watch.trigger == DEATH and alarm:
        return replace(watch, next_look_at=math.inf)
    due = due_at(watch, verdict, facts)
    if now < due < watch.next_look_at:
        return replace(watch, next_look_at=due)
    suspected = watch.incident is not None and watch.incident.stage is Stage.SUSPECTED
    if suspected and watch.last_looks:
        return replace(watch, next_look_at=now + watch.last_look_after_s())
    return watch


def _replaces(old: NodeRoster, new: NodeRoster) -> bool:
    """Some process is new, and some of the old ones are no longer there (those that died stay until replaced)."""
    before, after = _processes(old), _processes(new)
    return bool(after - before) and bool(before - after)


def _processes(told: NodeRoster) -> set[tuple[int, int]]:
    return set(zip(told.roster.pid.tolist(), told.roster.start_ticks.tolist(), strict=True))
