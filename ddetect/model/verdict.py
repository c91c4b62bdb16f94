"""What is said about a job: the words of a verdict, and the life of an incident.

Enters: nothing. Leaves: frozen values. Never here: how they read on a screen (ddetect.report).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ddetect.model.members import Unread


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
class Where:
    """The line to look at: the innermost frame that is the user's; where none is, a library's, and marked so."""

    function: str
    file: str
    line: int
    library: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """The process inside a rank that is at fault, when it is not the rank process itself."""

    role: str  # "loader_worker"
    index: int
    pid: int


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank the others wait for."""

    rank: int
    lane: int | None = None
    host: str = ""
    pid: int | None = None
    process: Process | None = None
    where: Where | None = None
    doing: str = ""  # "sleeps in read_shard", for the summary


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ranks that wait, and for what. Victims, not suspects."""

    ranks: tuple[int, ...]
    on: str
    backend: str = ""
    group: str = ""
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, with its reasons. `UNDECIDED` is an honest one and says what is missing."""

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
    confirmed_at_unix_ns: int | None = None
    closed: Closed | None = None
    history: tuple[Judgement, ...] = ()
