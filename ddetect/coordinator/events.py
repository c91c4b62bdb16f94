"""What the state machine is told and what it asks for. Values only."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Somebody asked the job to end (then what dies now dies as it should), or it has ended with `exit_code`."""

    reason: str
    exit_code: int | None = None
    by_us: bool = False  # for a hang that was named: what ranks do now is our doing


@dataclass(frozen=True, slots=True)
class Ask:
    """Say something to a node's agent."""

    node: str
    message: ToAgent


@dataclass(frozen=True, slots=True)
class Record:
    """Write the incident to its folder. `alarm`: it has just been confirmed, act on it."""

    incident: Incident
    snapshot: Snapshot
    alarm: bool = False


Event = Heard | Lost | Tick | Ending
Command = Ask | Record
