"""The desk in front of the state machine: every event is written down, taken in, and undone if that fails.

Enters: events, at the moment they happen. Leaves: commands, and of each incident the events that led to it. What the
state machine could not take in is counted and said; it has happened to nobody. Used by the coordinator and by attach.
Never here: gRPC, files, rules.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ddetect.coordinator.eventlog import EventLog
from ddetect.coordinator.events import Command, Event, Withdraw
from ddetect.coordinator.state import JobState
from ddetect.model import Incident

log = logging.getLogger("ddetect.coordinator")


class Desk:
    """One job's desk."""

    def __init__(
        self, job: JobState, say: Callable[[str], None] | None = None, *, keep_all: bool = False
    ) -> None:
        """`keep_all`: hold every event until `all_events` asks for it, whether or not anything is suspected."""
        self.job = job
        self.faults = 0
        self._events = EventLog(whole=keep_all)
        self._say = say

    def take(self, event: Event, raw: bytes = b"") -> list[Command]:
        """Give the state machine one event; says nothing to do when it fails."""
        now, unix_ns = time.monotonic(), time.time_ns()
        try:
            self._events.note(event, self.job, now=now, unix_ns=unix_ns, raw=raw)
        except Exception:  # a log that fails must not cost the judgement
            self._fault("could not be written down", event)
        try:
            commands = self.job.on(event, now=now, unix_ns=unix_ns)
            if any(isinstance(command, Withdraw) for command in commands):
                self._events.forget()
            return commands
        except Exception:  # a fault of ours must not end an agent's stream, nor our sight of the job
            self._fault("could not be taken in, and was undone", event)
            return []

    def events_of(self, incident: Incident) -> bytes:
        """The part of its event log that has not been handed out yet."""
        return self._events.piece(incident.number, len(self.job.nodes.roster()))

    def all_events(self) -> bytes:
        """The part of the whole job's log that has not been handed out yet."""
        return self._events.whole_piece()

    @property
    def has_many(self) -> bool:
        """Whether so many events of an open incident wait that they should go to its folder."""
        return self._events.is_long

    @property
    def is_cut(self) -> bool:
        """Whether the log of the open incident is not whole."""
        return self._events.is_cut

    def _fault(self, what: str, event: Event) -> None:
        self.faults += 1
        log.exception("%s %s", type(event).__name__, what)
        if self._say is not None and self.faults == 1:
            self._say(f"an event ({type(event).__name__}) {what}; please report this")
