"""A stall or a death that is being looked at, and how long until the next look.

Looks come at uneven gaps: a program that repeats every few seconds would else be met at the same place each time, and
what moves would seem to stand still. Never here: how to judge, limits, what a look shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ddetect.coordinator import life
from ddetect.model import Incident, Look, Phase, Snapshot, Stage, Verdict

RELOOK_S = (4.0, 2.3, 3.3, 2.9)
"""From look to look, over and over. The first is long enough for a rank that raised to get out of its process."""
LAST_LOOKS_S = (0.7, 1.1)
"""Patience is up: so many looks more before an alarm that only time proves."""


@dataclass(slots=True)
class Question:
    """Evidence asked for and not yet complete."""

    request: int
    asked_at: float
    missing: set[str]
    parts: list[Look] = field(default_factory=list)


@dataclass(slots=True)
class Inquiry:
    """A stall or a death that is being looked at."""

    kind: str  # activity, step, rank, death
    since: float  # last progress
    phase: Phase
    steps: int
    rank: int
    next_look_at: float
    still_since: float  # patience counts from here: when we began to look, or saw certain motion
    looks: list[Look] = field(default_factory=list)
    taken: int = 0  # looks taken so far
    empty: int = 0  # questions in a row that nobody answered
    native: tuple[int, ...] = ()
    incident: Incident | None = None
    snapshot: Snapshot | None = None
    weak_at: float = -math.inf  # when we last saw weak motion: a child's bytes, another thread
    named: tuple[Verdict, Snapshot] | None = None  # a stall: who was named before anybody died of it
    told: Snapshot | None = None  # the evidence of the verdict that the incident has
    last_looks: int = 0  # looks since patience was up
    _relooks: int = 0
    _other: tuple[object, ...] = ()  # another answer than the alarm's, heard once

    def takes_back(self, verdict: Verdict) -> bool:
        """Whether this answer is not the alarm's and is heard for the first time. It is remembered for the next look.

        A look may meet a job that has just gone on.
        """
        if self.incident is None or self.incident.stage is not Stage.CONFIRMED:
            return False
        before, self._other = self._other, life.key(verdict)
        return self._other not in (before, life.key(self.incident.verdict))

    def relook_after_s(self) -> float:
        """How long until the next look, if nothing hurries."""
        self._relooks += 1
        return RELOOK_S[(self._relooks - 1) % len(RELOOK_S)]

    @property
    def looked_its_last(self) -> bool:
        """Whether it stood still in every look since patience was up, and those were enough."""
        return self.last_looks > len(LAST_LOOKS_S)

    def last_look_after_s(self) -> float:
        """How long until the next of the last looks."""
        return LAST_LOOKS_S[min(self.last_looks, len(LAST_LOOKS_S)) - 1]
