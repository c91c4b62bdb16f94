"""What members do with each other: process groups, collectives, sends and receives. One value, `Comms`.

Enters: nothing. Leaves: frozen values and tables. Never here: who waits for whom (ddetect.correlate), what an
operation's name means (ddetect.frameworks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from ddetect.model.sightings import Frame
from ddetect.model.tables import UNKNOWN, Floats, Ints, Table, floats, ints, part, values

PAGE_ROWS = 32
"""A page has room for this many open sends and receives: with so many in it, the next one is nowhere to be seen."""

RECORDER_ROWS = 64
"""And so many open operations are kept of a recorder."""


class OpState(IntEnum):
    """How far a collective has come on one rank. On NCCL, ENQUEUED says nothing about the device."""

    ENQUEUED = 1
    STARTED = 2
    COMPLETED = 3


class P2PKind(IntEnum):
    """A point-to-point operation that has begun and not ended."""

    SEND = 1
    RECV = 2
    RECV_ANY = 3
    MONITORED_BARRIER = 4


@dataclass(frozen=True, slots=True)
class Group:
    """A process group. Its identity is backend, name and members: names repeat across meshes."""

    backend: str  # "gloo", "nccl"
    name: str  # torch's own: "0", "1"
    desc: str = ""  # what people call it: "default_pg", "mesh_dp"
    members: tuple[int, ...] = ()  # of the job, as numbers (a torch rank is its own); empty when unknown

    @property
    def label(self) -> str:
        """How a report calls it."""
        return self.desc if self.desc not in ("", "undefined") else f"group {self.name}"


@dataclass(frozen=True, slots=True)
class CallSpec:
    """What every member of a group must agree on at one sequence number."""

    op: str  # "all_reduce"
    in_sizes: str = ""  # "[[16, 4]]"
    in_dtypes: str = ""
    out_sizes: str = ""
    out_dtypes: str = ""
    root: int = UNKNOWN  # a member of the job
    reduce_op: str = ""


@dataclass(frozen=True, eq=False)
class Progress(Table):
    """How far each member has come in each of its groups: a row per (member, group)."""

    rank: Ints = ints()
    lane: Ints = ints(fill=0)
    group: Ints = ints(into="groups")
    enqueued: Ints = ints()  # highest sequence number begun; 0 if none
    started: Ints = ints()  # highest the device began; 0 where it does not tell
    completed: Ints = ints()  # highest below which nothing is open
    oldest_open: Ints = ints()  # lowest not completed; 0 if none
    first_kept: Ints = ints()  # lowest still in the recorder's ring


@dataclass(frozen=True, eq=False)
class Ops(Table):
    """The recorder's newest operations and every open one: a row per (member, group, seq).

    Without a recorder, the call that a rank's stack shows: seq is UNKNOWN, and so is any group but the default one.
    """

    rank: Ints = ints()
    lane: Ints = ints(fill=0)
    group: Ints = ints(into="groups", optional=True)
    seq: Ints = ints()
    call: Ints = ints(into="calls")
    state: Ints = ints()  # OpState
    frame: Ints = ints(into="frames", optional=True)  # who called it
    age_s: Floats = floats(age=True, fill=math.inf)  # since it was begun; inf where nobody told
    timeout_s: Floats = floats(
        fill=math.inf
    )  # after so long its framework gives it up; inf where nobody told


@dataclass(frozen=True, eq=False)
class OpenP2P(Table):
    """Point-to-point operations begun and not ended: a row each. `waiting` 1 = the host is blocked on it."""

    rank: Ints = ints()
    lane: Ints = ints(fill=0)
    kind: Ints = ints()  # P2PKind
    peer: Ints = ints()  # a member of the job, UNKNOWN for any source
    tag: Ints = ints()
    group: Ints = ints(into="groups", optional=True)
    waiting: Ints = ints()
    age_s: Floats = floats(age=True)


@dataclass(frozen=True, eq=False)
class Comms:
    """All of it, of one node or of the job: the rows of its tables point into its lists."""

    groups: tuple[Group, ...] = values(Group)
    calls: tuple[CallSpec, ...] = values(CallSpec)
    frames: tuple[Frame, ...] = values(Frame)
    progress: Progress = part(Progress)
    ops: Ops = part(Ops)
    p2p: OpenP2P = part(OpenP2P)
