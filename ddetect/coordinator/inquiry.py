"""Look closer: ask the nodes, have the answers judged, say what was found, louder if it is time, until it is over.

Enters: a watch that a trigger began, evidence, opinions. Leaves: questions, cases, incidents to record or to withdraw.
When it is time the triggers say, what becomes of an incident says life.py. Never here: when a watch begins, and what
the end of the job means for it (state.py).
"""

from __future__ import annotations

import math
from dataclasses import replace

from ddetect.coordinator import life
from ddetect.coordinator.events import Ask, Command, Judge, Keep, Note, Record, Withdraw
from ddetect.coordinator.gather import look_without
from ddetect.coordinator.job import Job
from ddetect.coordinator.life import Turn
from ddetect.coordinator.opinion import Case, Opinion, key
from ddetect.coordinator.triggers import DEATH, TRIGGERS
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import Question, Watch
from ddetect.messages import Evidence, TakeEvidence
from ddetect.model import Look, Proof, Stage, Status, Unread, Verdict

EMPTY_LOOKS = 3  # questions nobody answers before we judge by the beats alone


class Inquiry(Job):
    """The part of the state machine that follows a suspicion."""

    def _ask(self, watch: Watch, now: float) -> list[Command]:
        nodes = self.nodes.to_ask()
        self.requests += 1
        self._question = Question(self.requests, now, self.nodes.to_wait_for(nodes, now))
        if not watch.first_request:
            self.watch = replace(watch, first_request=self.requests)
        return [
            Ask(
                name,
                TakeEvidence(self.requests, self.nodes.pids_on(name, watch.native), light=watch.noticed),
            )
            for name in nodes
        ]

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
        decide = watch.noticed or TRIGGERS[watch.trigger].decides(watch, self._facts(now), now)
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
        if watch.noticed and opinion.verdict is not None and not opinion.last:
            return self._glanced(watch, opinion, opinion.verdict, now)
        watch = replace(
            watch,
            looks=opinion.snapshot.looks,
            alone=opinion.alone,
            taken=watch.taken + 1,
            native=opinion.native,
            judged_at=now,
        ).at_place(opinion.place)
        if opinion.verdict is None:
            self.watch = replace(watch, next_look_at=now + self.settings.sample_gap_s)
            return []
        commands = self._conclude(watch.looking_again(now), opinion, opinion.verdict, now, unix_ns)
        if opinion.last and self._leaving is not None:
            commands += self._finish(*self._leaving, now, unix_ns)
        return commands

    def _glanced(self, watch: Watch, opinion: Opinion, verdict: Verdict, now: float) -> list[Command]:
        """A glance at what stands within the usual: where it is, kept for the case that the job dies of it."""
        facts = self._facts(now)
        named = (verdict, opinion.snapshot) if verdict.culprits or verdict.cause is not None else None
        well = verdict.status is Status.HEALTHY
        watch = replace(watch, named=named, judged_at=now, well=well).at_place(opinion.place)
        self.watch = watch.glancing_again(facts.quiet_s, now)
        return [Keep(opinion.snapshot)]

    def _look_closer(self, watch: Watch, now: float) -> None:
        """From now on it is a suspicion: whole looks, and what they say goes to disk.

        A glance names who is waited for in a step that may well be as long as ever: it explains a death only where
        the job has stood for as long as patience.
        """
        self._question, self._case = None, 0
        named = watch.named if now - watch.still_since >= self.settings.patience_s else None
        self.watch = replace(watch, noticed=False, next_look_at=now, named=named)

    def _conclude(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, now: float, unix_ns: int
    ) -> list[Command]:
        """Say what we know, louder if it is time."""
        self.watch = watch
        if verdict.status is Status.HEALTHY:
            return self._finish(Turn.MOVES, "looked closer: the job is moving", now, unix_ns)
        if watch.is_confirmed:
            if watch.knows_more_than(verdict):
                return []  # ranks that give up one by one say less and less
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
            # A cause may have no culprit: everyone is in and nobody comes out.
            named = (verdict, shown) if verdict.culprits or verdict.cause is not None else None
            watch = replace(watch, named=named)
        before = watch.incident
        incident = life.said(before, self.number, verdict, opinion.snapshot, unix_ns)
        alarm = False
        if incident.stage is Stage.SUSPECTED:
            trigger = TRIGGERS[watch.trigger]
            watch, alarm = trigger.is_time(watch, opinion, verdict, facts, now, kept=kept)
        if alarm:
            incident = life.proven(incident, unix_ns)
        told = replace(shown, stage=incident.stage)
        note = not watch.noted and incident.stage is Stage.SUSPECTED and self._is_old(watch, now)
        watch = replace(watch, incident=incident, told=told, noted=watch.noted or note)
        self.watch = _next_look(watch, alarm, now)
        notes: list[Command] = [Note(incident)] if note else []
        deaths_added = kept and before is not None and before.verdict.evidence != verdict.evidence
        known = before is not None and life.same_words(before.verdict, verdict) and not deaths_added
        return notes if known and not alarm else [Record(incident, told, alarm), *notes]

    def _is_old(self, watch: Watch, now: float) -> bool:
        """Whether those who want to know early should hear of it."""
        return watch.trigger != DEATH and now - watch.since >= self.settings.note_after_s

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
            watch_of(DEATH, found, now),
            looks=watch.looks,
            alone=watch.alone,
            taken=watch.taken,
            native=watch.native,
        )
        self._leaving = leaving
        return commands + self._conclude(died.looking_again(now), opinion, verdict, now, unix_ns)

    def _finish(self, turn: Turn, reason: str, now: float, unix_ns: int) -> list[Command]:
        """End the watch. A gap that ended by itself was normal, unless something was plainly broken."""
        watch, self.watch, self._question = self.watch, None, None
        self._case, self._leaving = 0, None
        if watch is None:
            return []
        lasted = now - watch.since
        incident = watch.incident
        broken = incident is not None and incident.verdict.proof is Proof.STRUCTURAL
        if turn is Turn.MOVES and not broken and watch.steps:
            # What somebody was woken for may have been an outage: it teaches no more than patience.
            usual = min(lasted, self.settings.patience_s) if watch.is_confirmed else lasted
            self.patience = TRIGGERS[watch.trigger].learn(watch, usual, self.patience)
        if incident is None or watch.told is None:
            return []
        command = life.over(incident, watch.told, turn, reason, lasted, unix_ns)
        if not isinstance(command, Withdraw):
            self.number = incident.number + 1
        return [command]

    def _watch_deaths(self, now: float) -> Watch:
        found = TRIGGERS[DEATH].suspect(self._facts(now))
        assert found is not None
        return watch_of(DEATH, found, now)

    def _died_unheard(self) -> bool:
        """Whether ranks died and nobody was told: not judged yet, or of a suspicion whose time is up by that."""
        watch = self.watch
        if self.departures.open or watch is None or watch.incident is None:
            return bool(self.departures.open)
        return watch.incident.stage is Stage.SUSPECTED and bool(self.departures.deaths)


def watch_of(trigger: str, found: Suspicion, now: float, *, awake_since: float = -math.inf) -> Watch:
    """The watch that a suspicion begins. Time counts from the last progress, or from when nobody was frozen."""
    still_since = max(found.since, awake_since)
    return Watch(trigger, found.since, found.phase, found.steps, found.rank, now, still_since)


def _next_look(watch: Watch, alarm: bool, now: float) -> Watch:
    """Look again in a while, and surely when an alarm may be due; at the dead nobody looks twice."""
    if watch.trigger == DEATH and alarm:
        return replace(watch, next_look_at=math.inf)
    if watch.outlook is not None and now < watch.outlook.at < watch.next_look_at:
        return replace(watch, next_look_at=watch.outlook.at)
    suspected = watch.incident is not None and watch.incident.stage is Stage.SUSPECTED
    if suspected and watch.last_looks:
        return replace(watch, next_look_at=now + watch.last_look_after_s())
    return watch
