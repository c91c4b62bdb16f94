"""What is known of one job, as values, and the door that takes back what fails.

Enters: events. Leaves: commands, or the exception; then nothing has happened. Values are replaced, never changed, and
nodes can be taken back, so that undoing costs what was changed. Never here: what an event means (state.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace

from ddetect.coordinator.departed import Departures
from ddetect.coordinator.events import Command, Ending, Event, Judged
from ddetect.coordinator.facts import Facts
from ddetect.coordinator.life import Turn
from ddetect.coordinator.nodes import Nodes
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.watch import Question, Watch
from ddetect.frameworks import FRAMEWORKS
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.general import GENERAL
from ddetect.model import Gone, Settings, Snapshot


class Job(ABC):
    """The values, and how they are put together."""

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
        self.awake_since = -math.inf  # before that the job was frozen, or we ourselves were

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

    @abstractmethod
    def _on(self, event: Event, now: float, unix_ns: int) -> list[Command]:
        """What an event means."""

    def _facts(self, now: float) -> Facts:
        return Facts(
            self.settings,
            self.nodes,
            self.patience,
            self.nodes.pulse(now),
            self.departures.open,
            self.ending,
            self.awake_since,
        )

    @property
    def _framework(self) -> Framework:
        return FRAMEWORKS.get(self.nodes.framework() or Snapshot.framework, GENERAL)

    def _snapshot(self, watch: Watch, now: float, unix_ns: int) -> Snapshot:
        return Snapshot(
            job=self.job,
            attempt=self.attempt,
            world_size=self.nodes.world_size(),
            framework=self.nodes.framework() or Snapshot.framework,
            taken_at_unix_ns=unix_ns,
            stalled_for_s=now - watch.since,
            phase=watch.phase,
            still_s=now - watch.still_since,
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
