"""A reason to look closer that is being followed, as a value, and how long until the next look.

Looks come at uneven gaps: a program that repeats every few seconds would else be met at the same place each time, and
what moves would seem to stand still. Never here: how to judge, limits, what a look shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ddetect.coordinator.opinion import Answer, key
from ddetect.correlate.limits import Situation
from ddetect.model import Incident, Look, Phase, Snapshot, Stage, Status, Verdict

RELOOK_S = (4.0, 2.3, 3.3, 2.9)
"""From look to look, over and over. The first is long enough for a rank that raised to get out of its process."""
LAST_LOOKS_S = (0.7, 1.1)
"""Patience is up: so many looks more before an alarm that only time proves."""


@dataclass(frozen=True, slots=True)
class Question:
    """Evidence asked for and not yet complete."""

    request: int
    asked_at: float
    missing: frozenset[str]
    parts: tuple[tuple[str, Look], ...] = ()  # with the node that it came from


NOTICED_AT_S = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0)
"""A stillness within the usual is glanced at when it has lasted so long."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Which limit runs, and when it is up; `because`: what puts it off, in words."""

    situation: Situation
    after_s: float
    at: float
    because: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is being looked at, and what was found so far."""

    trigger: str  # the reason's name
    since: float  # last progress
    phase: Phase
    steps: int
    rank: int
    next_look_at: float
    still_since: float  # limits count from here: the last progress, or when those that are named last worked
    looks: tuple[Look, ...] = ()
    alone: tuple[Answer | None, ...] = ()  # what each of them says by itself, where that was asked
    taken: int = 0  # looks taken so far
    empty: int = 0  # questions in a row that nobody answered
    first_request: int = 0  # the first question of it
    late: tuple[tuple[str, Look], ...] = ()  # evidence that came after its question was closed
    native: tuple[int, ...] = ()
    incident: Incident | None = None
    runs_at: float = -math.inf  # when somebody who is waited for was last seen to run,
    polls_at: float = -math.inf  # and to poll
    outlook: Outlook | None = None
    judged_at: float = 0.0
    noticed: bool = False  # it stands within the usual: glances, and not a word on disk
    glances: int = 0
    well: bool = False  # the last glance found nothing wrong: the job is ending
    place: str = ""  # where those stand that are waited for,
    places: frozenset[str] = frozenset()  # and all places where they were seen
    noted: bool = False  # those who want to know early were told
    named: tuple[Verdict, Snapshot] | None = None  # what was found before anybody died of it
    told: Snapshot | None = None  # the evidence of the verdict that the incident has
    last_looks: int = 0  # looks since patience was up
    stands_s: float = 0.0  # a pause that the framework is known to make where the culprits are
    moves_since: float = math.inf  # when it first seemed to go on
    relooks: int = 0
    other: Answer = ()  # another answer than the alarm's, heard once

    @property
    def is_confirmed(self) -> bool:
        """Whether somebody was told."""
        return self.incident is not None and self.incident.stage is Stage.CONFIRMED

    def at_place(self, place: str) -> Watch:
        """Those that are waited for stand there; "" is no place."""
        return replace(self, place=place, places=self.places | {place} if place else self.places)

    def glancing_again(self, quiet_s: float, now: float) -> Watch:
        """The next glance, when the stillness has doubled."""
        after_s = next((at for at in NOTICED_AT_S if at > quiet_s + 0.5), 2.0 * quiet_s)
        return replace(self, glances=self.glances + 1, next_look_at=now + after_s - quiet_s)

    def differs(self, verdict: Verdict) -> bool:
        """Whether this is not the alarm's answer, and heard for the first time: a look may meet a job that goes on."""
        if self.incident is None or not self.is_confirmed:
            return False
        return key(verdict) not in (self.other, key(self.incident.verdict))

    def knows_more_than(self, verdict: Verdict) -> bool:
        """Whether the alarm has an answer where this one has none."""
        answered = self.incident is not None and self.incident.verdict.status is not Status.UNDECIDED
        return answered and verdict.status is Status.UNDECIDED

    def looking_again(self, now: float) -> Watch:
        """The next look, if nothing hurries."""
        after_s = RELOOK_S[self.relooks % len(RELOOK_S)]
        return replace(self, relooks=self.relooks + 1, next_look_at=now + after_s)

    @property
    def looked_its_last(self) -> bool:
        """Whether it stood still in every look since patience was up, and those were enough."""
        return self.last_looks > len(LAST_LOOKS_S)

    def last_look_after_s(self) -> float:
        """How long until the next of the last looks."""
        return LAST_LOOKS_S[min(self.last_looks, len(LAST_LOOKS_S)) - 1]
