"""What the state machine is told and what it asks for. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from ddetect.coordinator.opinion import Case, Opinion
from ddetect.messages import FromAgent, ToAgent
from ddetect.model import Incident, Snapshot


@dataclass(frozen=True, slots=True)
class Heard:
    """An agent said something."""

    node: str
    message: FromAgent


@dataclass(frozen=True, slots=True)
class Lost:
    """The stream to a node's agent ended. The node may be gone, or only its agent."""

    node: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Somebody asked the job to end (then what dies now dies as it should), or it is over.

    It is over when there is an `exit_code`, or when nobody is left to watch it (`abandoned`): then pids may still run.
    """

    reason: str
    exit_code: int | None = None
    by_us: bool = False  # for a hang that was named: what ranks do now is our doing
    abandoned: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing will follow."""
        return self.exit_code is not None or self.abandoned


@dataclass(frozen=True, slots=True)
class Judged:
    """What was thought of a case that was handed out."""

    opinion: Opinion


@dataclass(frozen=True, slots=True)
class Ask:
    """Say something to a node's agent."""

    node: str
    message: ToAgent


@dataclass(frozen=True, slots=True)
class Judge:
    """Form an opinion of this case and come back with `Judged`: it takes a while at scale, and needs no state."""

    case: Case


@dataclass(frozen=True, slots=True)
class Record:
    """Write the incident to its folder. `alarm`: it has just been confirmed, act on it."""

    incident: Incident
    snapshot: Snapshot
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A suspicion lasts: tell those who want to know of it before it is an alarm."""

    incident: Incident


@dataclass(frozen=True, slots=True)
class Keep:
    """The newest glance at a job that stands still within the usual: kept beside the job, no incident."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A suspicion that nobody need hear of: its folder goes, a row among the pauses stays."""

    incident: Incident
    reason: str
    lasted_s: float
    at_unix_ns: int


Event = Heard | Lost | Tick | Ending | Judged
Command = Ask | Judge | Record | Note | Withdraw | Keep
