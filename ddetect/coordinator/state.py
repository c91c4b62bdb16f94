"""Decide what the coordinator does next. Events in, commands out.

Enters: what agents said, ticks, opinions, the end of the job; always with `now` (monotonic seconds) and the unix time
for output. Leaves: questions to agents, cases to judge, incidents to record. Here is what an event means: who said
what, what time brings, what the end of a watch, of an attempt and of the job are. How it is looked closer: inquiry.py.
Never here: gRPC, clocks, threads, files, logging.
"""

from __future__ import annotations

import math
from dataclasses import replace
from signal import Signals

from typing_extensions import assert_never

from ddetect.coordinator import life
from ddetect.coordinator.departed import Departures
from ddetect.coordinator.events import Command, Ending, Event, Heard, Judged, Lost, Record, Tick
from ddetect.coordinator.facts import Facts
from ddetect.coordinator.inquiry import Inquiry, watch_of
from ddetect.coordinator.life import Turn
from ddetect.coordinator.nodes import SILENT_AFTER_S
from ddetect.coordinator.triggers import DEATH, TRIGGERS
from ddetect.coordinator.triggers.stall import Stall
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import NOTICED_AT_S, Watch
from ddetect.correlate.rules.on_purpose import OUTLIVED_S
from ddetect.messages import Evidence, Hello, JobEnds, NodeBeat, NodeGone, NodeRoster, RanksEnded
from ddetect.model import Phase

LOOK_TIMEOUT_S = 8.0  # longer than an agent takes at its slowest; then we go on with the answers that came
ONE_RESTART_S = 60.0  # nodes whose ranks are replaced within this belong to one restart
MOVES_FOR_S = 1.0  # who goes on moves, and moves again


class JobState(Inquiry):
    """One job's state machine."""

    # ------------------------------------------------------------ who said what

    def _on(self, event: Event, now: float, unix_ns: int) -> list[Command]:
        if now - self.last_now > SILENT_AFTER_S:
            self._wake(now)  # we were frozen ourselves: nobody was watched meanwhile
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

    # ------------------------------------------------------------ time passes

    def _tick(self, now: float, unix_ns: int) -> list[Command]:
        commands: list[Command] = []
        self.nodes.let_go(now)
        question = self._question
        if question is not None and (not question.missing or now - question.asked_at > LOOK_TIMEOUT_S):
            commands += self._take_look(question, now, unix_ns)
        self._outlive(now)
        if self._leaving is not None and not self._case:
            commands += self._finish(*self._leaving, now, unix_ns)  # its last judgement could not be taken in
        facts = self._facts(now)
        if facts.pulse is not None and facts.pulse.frozen:
            self._wake(now)
        elif self.watch is None:
            self._suspect(facts, now)
        elif self.watch.noticed and (self._suspects(self.watch, facts) or facts.deaths):
            self._look_closer(self.watch, now)
        elif self.ending is None and self._leaving is None and self._goes_on(self.watch, facts, now):
            lasted = f"progress resumed after {now - self.watch.since:.1f} s"
            commands += self._finish(Turn.MOVES, lasted, now, unix_ns)
        watch = self.watch
        idle = self._question is None and not self._case and self.ending is None
        idle = idle and not (facts.pulse is not None and facts.pulse.frozen)
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
            if pulse.steps:  # from the first step on: how long the start took says nothing
                self.patience = self.patience.see_slow(facts.stepless_s, facts.alone_s)
                if facts.quiet_s <= facts.quiet_limit_s:
                    self.patience = self.patience.see_gap(pulse.phase, facts.quiet_s)
            facts = replace(facts, patience=self.patience)
        for name, trigger in TRIGGERS.items():
            found = trigger.suspect(facts) if name == DEATH or not paused else None
            if found is not None:
                self.watch = watch_of(name, found, now, awake_since=self.awake_since)
                return
        if pulse is not None and not paused and facts.quiet_s >= NOTICED_AT_S[0]:
            stands = Suspicion(pulse.activity_at, pulse.phase, pulse.steps, pulse.quiet_rank)
            watch = watch_of(Stall.name, stands, now, awake_since=self.awake_since)
            self.watch = replace(watch, noticed=True)
            self.patience = self.patience.see_nothing()  # how long it lasts, and where, the watch will tell

    def _suspects(self, watch: Watch, facts: Facts) -> bool:
        """Whether what was noticed stands for longer than is usual at its place."""
        if facts.pulse is None or not watch.glances or watch.well:
            return False
        return facts.quiet_s > facts.suspect_after_s(watch.place)

    def _wake(self, now: float) -> None:
        """Everybody was frozen until now, or we were: what stood still meanwhile says nothing."""
        self.awake_since = now
        if self.watch is not None:
            self.watch = replace(self.watch, still_since=now, last_looks=0)

    def _goes_on(self, watch: Watch, facts: Facts, now: float) -> bool:
        """Whether it made a step, or moved, and moved again: who raises moves once more, and so does who leaves."""
        pulse = facts.pulse
        if pulse is None or not TRIGGERS[watch.trigger].is_over(watch, facts):
            return False
        since = min(watch.moves_since, pulse.activity_at)
        if since != watch.moves_since:
            self.watch = replace(watch, moves_since=since)
        dies = pulse.exiting or any(at > watch.since for _, at in facts.deaths)
        goes_on = pulse.steps > watch.steps or pulse.activity_at - since >= MOVES_FOR_S
        return goes_on and (watch.trigger == DEATH or not dies)

    # ------------------------------------------------------------ the end of an attempt, of the job

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


def _replaces(old: NodeRoster, new: NodeRoster) -> bool:
    """Some process is new, and some of the old ones are no longer there (those that died stay until replaced)."""
    before, after = _processes(old), _processes(new)
    return bool(after - before) and bool(before - after)


def _processes(told: NodeRoster) -> set[tuple[int, int]]:
    return set(zip(told.roster.pid.tolist(), told.roster.start_ticks.tolist(), strict=True))
