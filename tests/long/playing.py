"""Play the log of a whole run against the rules as they are now: what would have been said, and when.

Enters: the bytes of an event log, and settings to change. Leaves: `Played`. The state machine asks by its present
rules, so what it asks for is answered with the look that the log has: the one that was taken then, else the next, else
the nearest (`borrowed`), else none (`missing`). Opinions are formed anew. Never here: the folder's own words.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ddetect.coordinator.checkpoint import load_state
from ddetect.coordinator.eventlog import Entry, read_log
from ddetect.coordinator.events import Ask, Command, Event, Heard, Judge, Judged, Record, Withdraw
from ddetect.coordinator.opinion import form_opinion
from ddetect.coordinator.state import JobState
from ddetect.messages import Evidence, TakeEvidence
from ddetect.model import Settings
from ddetect.report.json_ import verdict_json
from tests.long.words import WITHDRAWN, Word, word_of

LATE_S = 30.0  # an answer to the same question may take so long
NEXT_S = 8.0  # and one to another question that came so soon is as good
NEAR_S = 60.0  # further away a look says nothing of now
ANSWERS_S = 0.5  # after which what is borrowed arrives
THINKS_S = 0.3  # for a judgement that the log does not have


@dataclass(frozen=True, slots=True)
class Played:
    """What came out. Times are CLOCK_MONOTONIC, as the log has them."""

    began: float
    ended: float
    words: list[Word]
    borrowed: int = 0  # looks that were taken at another time than now
    missing: int = 0  # looks that the log does not have
    faults: int = 0  # events that the state machine could not take in


def play(data: bytes, changed: Mapping[str, Any] | None = None) -> Played:
    """Play a log. Raises ValueError when it is damaged, or does not begin with a checkpoint."""
    lines = list(read_log(data))
    if not lines or not lines[0].state:
        raise ValueError("the event log does not begin with a checkpoint")
    player = _Player(lines)
    for line in lines:
        player.take(line, changed or {})
    return Played(lines[0].now, lines[-1].now, player.words, player.borrowed, player.missing, player.faults)


class _Player:
    def __init__(self, lines: Iterable[Entry]) -> None:
        self.words: list[Word] = []
        self.borrowed = self.missing = self.faults = 0
        self._job: JobState | None = None
        self._order = itertools.count()
        self._coming: list[tuple[float, int, Event]] = []  # answers and opinions on their way
        self._looks: dict[str, list[tuple[float, Evidence]]] = defaultdict(list)
        self._judged: dict[int, list[float]] = defaultdict(list)  # by ticket: when an opinion came back
        for line in lines:
            if isinstance(line.event, Heard) and isinstance(line.event.message, Evidence):
                self._looks[line.event.node].append((line.now, line.event.message))
            elif line.ticket:
                self._judged[line.ticket].append(line.now)

    def take(self, line: Entry, changed: Mapping[str, Any]) -> None:
        """One line of the log, after all that was on its way before it."""
        while self._coming and self._coming[0][0] <= line.now:
            at, _, due = heapq.heappop(self._coming)
            self._give(due, at, line.unix_ns - int((line.now - at) * 1e9))
        if line.state and (self._job is None or line.number == 1):
            self._job, self._coming = _state(line, changed), []
        event = line.event
        if event is None or (isinstance(event, Heard) and isinstance(event.message, Evidence)):
            return  # what was asked for then may not be asked for now
        self._give(event, line.now, line.unix_ns)

    def _give(self, event: Event, now: float, unix_ns: int) -> None:
        assert self._job is not None
        try:
            commands = self._job.on(event, now=now, unix_ns=unix_ns)
        except Exception:
            self.faults += 1  # it was undone
            return
        for command in commands:
            self._carry_out(command, now)

    def _carry_out(self, command: Command, now: float) -> None:
        match command:
            case Ask(node, TakeEvidence(request)):
                self._answer(node, request, now)
            case Judge(case):
                came = [at for at in self._judged[case.ticket] if now <= at <= now + LATE_S]
                self._send(came[0] if came else now + THINKS_S, Judged(form_opinion(case)))
            case Record(incident):
                self.words.append(word_of(verdict_json(incident), now))
            case Withdraw(incident):
                self.words.append(word_of(verdict_json(incident), now, WITHDRAWN))

    def _answer(self, node: str, request: int, now: float) -> None:
        looks = self._looks[node]
        place = bisect.bisect_left(looks, now, key=lambda item: item[0])
        later = looks[place:]
        same = [(at, look) for at, look in later if at <= now + LATE_S and look.request == request]
        soon = [(at, look) for at, look in later[:1] if at <= now + NEXT_S]
        if same or soon:
            at, look = (same or soon)[0]
        else:
            around = (*looks[max(place - 1, 0) : place], *later[:1])
            near = [(abs(at - now), look) for at, look in around if abs(at - now) <= NEAR_S]
            if not near:
                self.missing += 1
                return
            self.borrowed += 1
            at, look = now + ANSWERS_S, min(near, key=lambda item: item[0])[1]
        self._send(at, Heard(node, replace(look, request=request)))

    def _send(self, at: float, event: Event) -> None:
        heapq.heappush(self._coming, (at, next(self._order), event))


def _state(line: Entry, changed: Mapping[str, Any]) -> JobState:
    """The state machine at a checkpoint. The first of a job knows nothing but its settings: it is made anew, so that
    a log may be older than what a checkpoint has by now."""
    if line.number != 1:
        job = load_state(line.state)
        job.settings = replace(job.settings, **changed)
        return job
    (size,) = struct.unpack_from("<I", line.state)
    about = json.loads(line.state[4 : 4 + size])
    known = {item.name for item in fields(Settings)}
    settings = {name: value for name, value in about["settings"].items() if name in known}
    return JobState(
        str(about["job"]), Settings(**{**settings, **changed}), first_number=int(about["numbers"]["number"])
    )
