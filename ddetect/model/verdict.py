"""What is said about a job: the words of a verdict, and the life of an incident.

Enters: nothing. Leaves: frozen values. Never here: how they read on a screen (ddetect.report).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ddetect.model.claims import Addition, Claim
from ddetect.model.deeds import Deed
from ddetect.model.members import Unread
from ddetect.model.places import Process, Where
from ddetect.model.tables import LANE_BITS, UNKNOWN
from ddetect.model.words import Names


class Status(str, Enum):
    """What the person in front of the screen wants to know first."""

    HANG = "hang"
    SLOW = "slow"
    STOPPED = "stopped"
    NUMERIC = "numeric"
    HEALTHY = "healthy"
    UNDECIDED = "undecided"


class Stage(str, Enum):
    """How sure time has made us."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"  # it was nothing: no folder says so


class Proof(str, Enum):
    """STRUCTURAL contradicts progress by itself; TIME needs patience."""

    STRUCTURAL = "structural"
    TIME = "time"


class Cause(str, Enum):
    """The closed list of reasons. Each has a page in `ddetect/causes/`."""

    # the culprit does
    DATA_LOADING = "data_loading"
    PYTHON_LOCK = "python_lock"
    GIL_HELD = "gil_held"
    FILE_IO = "file_io"
    BUILDING = "building"
    USER_CODE = "user_code"
    PROCESS_STOPPED = "process_stopped"
    LEFT_EARLY = "left_early"
    RENDEZVOUS = "rendezvous"
    # between ranks
    COLLECTIVE_MISMATCH = "collective_mismatch"
    GROUP_ORDER_DEADLOCK = "group_order_deadlock"
    P2P_DEADLOCK = "p2p_deadlock"
    # below Python
    ALL_ENTERED_NONE_LEFT = "all_entered_none_left"
    DEVICE_STUCK = "device_stuck"
    # slow
    DATA_STARVED = "data_starved"
    LOADER_OVERSUBSCRIBED = "loader_oversubscribed"
    RETRACING = "retracing"
    MEMORY_THRASH = "memory_thrash"
    CPU_THROTTLED = "cpu_throttled"
    GPU_MEMORY_FULL = "gpu_memory_full"
    STRAGGLER = "straggler"
    # stopped
    OOM_KILLED = "oom_killed"
    KILLED_BY_SIGNAL = "killed_by_signal"
    PYTHON_EXCEPTION = "python_exception"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    DISK_FULL = "disk_full"
    # numeric
    NON_FINITE_LOSS = "non_finite_loss"
    EXPLODING_GRADIENTS = "exploding_gradients"
    VANISHING_GRADIENTS = "vanishing_gradients"
    LOSS_FLAT = "loss_flat"


@dataclass(frozen=True, slots=True)
class Culprit:
    """A member the others wait for; `lane` only where ranks have several."""

    rank: int
    lane: int | None = None
    host: str = ""
    pid: int | None = None
    process: Process | None = None
    where: Where | None = None
    doing: str = ""  # "sleeps in read_shard": its deed in words
    deed: Deed | None = None

    @property
    def member(self) -> int:
        """The member, as one number."""
        return self.rank | (self.lane or 0) << LANE_BITS


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ranks that wait, and for what. Victims, not suspects."""

    ranks: tuple[int, ...]
    on: str
    backend: str = ""
    group: str = ""
    seq: int | None = None
    lanes: tuple[int, ...] = ()  # of each of these ranks; empty where ranks have one

    @property
    def members(self) -> tuple[int, ...]:
        """Every rank with every lane."""
        return tuple(sorted(rank | lane << LANE_BITS for rank in self.ranks for lane in self.lanes or (0,)))


@dataclass(frozen=True, slots=True)
class Open:
    """Members of which nobody can tell which of these causes holds them, or that they are victims of it."""

    members: tuple[int, ...]
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, with its reasons. `UNDECIDED` is an honest one and says what is missing.

    `claims` is the summary as values, and `names` how its members are called; a verdict that was read has none.
    """

    status: Status
    cause: Cause | None
    proof: Proof
    confidence: float
    summary: str
    culprits: tuple[Culprit, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    unread: tuple[Unread, ...] = ()
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    claims: tuple[Claim | Addition, ...] = ()
    names: Names = field(default_factory=Names)
    left_open: Open | None = None  # what is undecided, and between what
    settled: float | None = None  # how sure it will be once time has proven it; None: as sure as it is

    @property
    def culprit_members(self) -> tuple[int, ...]:
        """The members named, in order, once each."""
        return tuple(sorted({c.member for c in self.culprits}))

    @property
    def culprit_ranks(self) -> tuple[int, ...]:
        """The ranks named, in order, once each."""
        return tuple(sorted({c.rank for c in self.culprits}))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was said earlier about an incident."""

    stage: Stage
    status: Status
    cause: Cause | None
    culprits: tuple[int, ...]
    summary: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Why and when an incident ended."""

    reason: str
    lasted_s: float
    at_unix_ns: int
    recovered: bool = False  # the job went on by itself


@dataclass(frozen=True, slots=True)
class Incident:
    """A verdict with its life: what `verdict.json` and `report.txt` say."""

    number: int
    stage: Stage
    verdict: Verdict
    job: str
    attempt: int
    world_size: int
    stalled_for_s: float
    last_progress_unix_ns: int
    judged_at_unix_ns: int  # of the first judgement
    said_at_unix_ns: int = 0  # of the words as they are now
    confirmed_at_unix_ns: int | None = None
    closed: Closed | None = None
    history: tuple[Judgement, ...] = ()
    members: int = UNKNOWN  # as many as ranks, unless ranks have several lanes
