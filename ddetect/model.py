"""The vocabulary: what is seen of a job, and what is said about it.

Enters: nothing. Leaves: frozen values that every other package speaks in. What exists once per rank is a
frozen dataclass of read-only numpy columns; a per-rank object exists only for a culprit.
Never here: I/O, protobuf, dictionaries that travel, rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from typing import Any, NewType

import numpy as np
import numpy.typing as npt

Rank = NewType("Rank", int)
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNKNOWN = -1
"""An integer that nobody told us: a rank, a root, an index."""

DEVICE_LIBRARY = r"lib(cuda|cudart|amdhip64|hsa-runtime64)\.so"
"""A pattern: a GPU's driver and runtime have no names for most of their functions, so in `Thread.native` the library
stands for them.
"""


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


class Role(IntEnum):
    """What a process is to its rank."""

    OTHER = 0
    RANK = 1
    LOADER_WORKER = 2
    CHILD = 3


class Phase(IntEnum):
    """What a lane says it is doing; OTHER is the user's own code between the hooks."""

    OTHER = 0
    STARTING = 1  # before init_process_group
    JOINING = 2  # inside init_process_group
    DATA = 3  # inside DataLoader.__next__
    OPTIMIZER = 4
    COLLECTIVE = 5  # inside a torch.distributed call, or waiting for its work handle
    P2P = 6
    PAUSED = 7  # the user said so: ddetect_probe.pause("eval")
    LEAVING = 8  # inside destroy_process_group
    EXITING = 9  # the interpreter is shutting down


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


class Departure(str, Enum):
    """How a process left."""

    EXITED = "exited"  # its interpreter ended by itself and no exception was seen
    RAISED = "raised"
    VANISHED = "vanished"  # gone without a word: killed, or os._exit


UNSEEN_ERROR = "an error"
"""How the exception of a process begins that had no probe to tell it: only its exit code is known."""


# ---------------------------------------------------------------- what one process looks like


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame. `file` is the full path as the dumper gave it."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread. `stack` is innermost first; `native` holds C symbols where they were asked for."""

    name: str
    is_main: bool
    active: bool
    owns_gil: bool
    stack: tuple[Frame, ...]
    state: str = ""  # R S D T Z t, from /proc
    wchan: str = ""  # the kernel function it sleeps in
    syscall: str = ""  # its name: "read", "flock"
    target: str = ""  # what the syscall's file descriptor is: "/data/x.lock", "pipe:[4711]"
    native: tuple[str, ...] = ()
    lane: int = (
        UNKNOWN  # whose thread this is, as the page told; a small number, so that equal ranks stay equal
    )


@dataclass(frozen=True, slots=True)
class Raised:
    """The last exception that nobody caught in a process that still lives."""

    exception: str  # "ValueError: bad shard"
    where: Frame | None = None
    fatal: bool = False  # it ends the process; else it only ended one of its threads


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a process did at one instant, without its identity: equal sightings are one class of ranks."""

    state: str  # R S D T t Z, or "gone"
    threads: tuple[Thread, ...] = ()
    dumper: str = ""  # py-spy, py-spy --nonblocking, pystack, faulthandler, or nothing
    unread: str = ""  # why there are no stacks, as a sentence; empty when there are
    raised: Raised | None = None

    @property
    def main(self) -> Thread | None:
        """The main thread, if it could be read."""
        return next((t for t in self.threads if t.is_main), None)


# ---------------------------------------------------------------- columns


def freeze(table: Any) -> None:
    """Make every column of a table an equally long read-only array. For `__post_init__` only."""
    length: int | None = None
    for item in fields(table):
        value = getattr(table, item.name)
        dtype = {"Ints": np.int64, "Floats": np.float64}.get(str(item.type))
        if dtype is None:
            continue
        column = np.array(value, dtype=dtype)
        column.flags.writeable = False
        object.__setattr__(table, item.name, column)
        if length is not None and len(column) != length:
            raise ValueError(f"{type(table).__name__}.{item.name} has {len(column)} rows, not {length}")
        length = len(column)


def _no_ints() -> Ints:
    return np.empty(0, np.int64)


def _no_floats() -> Floats:
    return np.empty(0, np.float64)


@dataclass(frozen=True, eq=False)
class Roster:
    """Who there is: one row per lane of a rank process (torch: one lane, 0). Sent when it changes."""

    rank: Ints = field(default_factory=_no_ints)
    lane: Ints = field(default_factory=_no_ints)
    node: Ints = field(default_factory=_no_ints)  # index into `nodes`
    pid: Ints = field(default_factory=_no_ints)
    start_ticks: Ints = field(default_factory=_no_ints)  # with pid: the identity of a process
    nodes: tuple[str, ...] = ()
    # How many ranks its node should have, as it was told; else UNKNOWN.
    local_world: Ints = field(default_factory=_no_ints)

    def __post_init__(self) -> None:
        if not len(self.local_world):
            object.__setattr__(self, "local_world", np.full(len(self.rank), UNKNOWN))
        freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Beats:
    """How every lane is, row for row with its Roster. Ages: clocks of two hosts are never compared."""

    step: Ints = field(default_factory=_no_ints)  # optimizer steps done
    step_age_s: Floats = field(default_factory=_no_floats)  # since the last one; inf if none
    batch: Ints = field(default_factory=_no_ints)
    calls: Ints = field(default_factory=_no_ints)  # torch.distributed calls begun, from Python
    # Completed, from the Flight Recorder when it was asked.
    collectives: Ints = field(default_factory=_no_ints)
    activity_age_s: Floats = field(default_factory=_no_floats)  # since any counter moved
    phase: Ints = field(default_factory=_no_ints)  # Phase
    phase_age_s: Floats = field(default_factory=_no_floats)
    # Since the probe's thread last ran; inf without a page.
    tick_age_s: Floats = field(default_factory=_no_floats)
    state: Ints = field(default_factory=_no_ints)  # ord() of the /proc state; 0 when the process is gone
    cpu_s: Floats = field(default_factory=_no_floats)
    io_bytes: Ints = field(default_factory=_no_ints)
    has_page: Ints = field(default_factory=_no_ints)

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class Sample:
    """All processes of the job (loader workers too) at one instant; `sighting` points into `sightings`."""

    rank: Ints = field(default_factory=_no_ints)
    role: Ints = field(default_factory=_no_ints)  # Role
    index: Ints = field(default_factory=_no_ints)  # loader worker index, else UNKNOWN
    pid: Ints = field(default_factory=_no_ints)
    sighting: Ints = field(default_factory=_no_ints)
    fetching: Ints = field(default_factory=_no_ints)  # dataset index a loader is fetching, else UNKNOWN
    fetch_age_s: Floats = field(default_factory=_no_floats)  # how long that fetch lasts; inf if none
    cpu_s: Floats = field(default_factory=_no_floats)
    io_bytes: Ints = field(default_factory=_no_ints)
    tick_age_s: Floats = field(default_factory=_no_floats)
    sightings: tuple[Sighting, ...] = ()
    # Percent, of the GPUs this process is on; UNKNOWN if it is on one and nobody told; nan if on none.
    gpu_busy: Floats = field(default_factory=_no_floats)

    def __post_init__(self) -> None:
        if not len(self.gpu_busy):
            object.__setattr__(self, "gpu_busy", np.full(len(self.rank), np.nan))
        freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group. Its identity is backend, name and members: names repeat across meshes."""

    backend: str  # "gloo", "nccl"
    name: str  # torch's own: "0", "1"
    desc: str = ""  # what people call it: "default_pg", "mesh_dp"
    members: tuple[int, ...] = ()  # global ranks; empty when unknown

    @property
    def label(self) -> str:
        """How a report calls it."""
        return self.desc if self.desc not in ("", "undefined") else f"group {self.name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What every member of a group must agree on at one sequence number."""

    op: str  # "all_reduce"
    in_sizes: str = ""  # "[[16, 4]]"
    in_dtypes: str = ""
    out_sizes: str = ""
    out_dtypes: str = ""
    root: int = UNKNOWN  # global rank
    reduce_op: str = ""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far each rank has come in each of its groups: a row per (rank, group)."""

    rank: Ints = field(default_factory=_no_ints)
    group: Ints = field(default_factory=_no_ints)  # index into Snapshot.groups
    enqueued: Ints = field(default_factory=_no_ints)  # highest sequence number begun; 0 if none
    started: Ints = field(default_factory=_no_ints)  # highest the device began; 0 where it does not tell
    completed: Ints = field(default_factory=_no_ints)  # highest below which nothing is open
    oldest_open: Ints = field(default_factory=_no_ints)  # lowest not completed; 0 if none
    first_kept: Ints = field(default_factory=_no_ints)  # lowest still in the recorder's ring

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Ops:
    """The recorder's newest operations and every open one: a row per (rank, group, seq).

    Without a recorder, the call that a rank's stack shows: seq is UNKNOWN, and so is any group but the default one.
    """

    rank: Ints = field(default_factory=_no_ints)
    group: Ints = field(default_factory=_no_ints)  # index into Snapshot.groups, or UNKNOWN
    seq: Ints = field(default_factory=_no_ints)
    signature: Ints = field(default_factory=_no_ints)  # index into Snapshot.signatures
    state: Ints = field(default_factory=_no_ints)  # OpState
    frame: Ints = field(default_factory=_no_ints)  # index into Snapshot.frames: who called it, or UNKNOWN

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class OpenP2P:
    """Point-to-point operations begun and not ended: a row each. `waiting` 1 = the host is blocked on it."""

    rank: Ints = field(default_factory=_no_ints)
    kind: Ints = field(default_factory=_no_ints)  # P2PKind
    peer: Ints = field(default_factory=_no_ints)  # global rank, UNKNOWN for any source
    tag: Ints = field(default_factory=_no_ints)
    group: Ints = field(default_factory=_no_ints)  # index into Snapshot.groups
    waiting: Ints = field(default_factory=_no_ints)
    age_s: Floats = field(default_factory=_no_floats)

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(self.rank)


# ---------------------------------------------------------------- rare things: an object each


@dataclass(frozen=True, slots=True)
class Gone:
    """A process of the job that ended, and its last words. Newest exception, where it was raised."""

    rank: int
    role: Role
    index: int
    pid: int
    how: Departure
    age_s: float
    exception: str = ""  # "ValueError: bad shard"
    where: Frame | None = None
    signal: int = 0  # what killed it, where the kernel told us; 0 if nothing did or nobody knows


@dataclass(frozen=True, slots=True)
class Unread:
    """Ranks about which something could not be learned; `reason` is shown to the user."""

    ranks: tuple[int, ...]
    reason: str
    node: str = ""  # whose agent was lost from sight; empty for any other reason
    silent_s: float | None = None  # how long that agent was not heard: a node that fell silent is a lead


@dataclass(frozen=True, slots=True)
class Limit:
    """A learned gap: how long this phase has lasted at its longest while the job was well."""

    phase: Phase
    longest_s: float
    seen: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may change about judging. Travels in the snapshot, so a replay judges alike."""

    patience_s: float = 60.0
    floor_s: float = 2.0
    startup_s: float = 30.0  # before the first step: suspicion after this long without motion
    samples: int = 3
    sample_gap_s: float = 0.35


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything a judgement may look at. Written to disk and read again it gives the same verdict."""

    job: str = ""
    attempt: int = 0
    world_size: int = UNKNOWN
    framework: str = "torch"
    taken_at_unix_ns: int = 0
    stalled_for_s: float = 0.0
    stage: Stage = Stage.SUSPECTED  # of its incident, when it was written
    roster: Roster = field(default_factory=Roster)
    beats: Beats = field(default_factory=Beats)
    samples: tuple[Sample, ...] = ()
    groups: tuple[Group, ...] = ()
    signatures: tuple[Signature, ...] = ()
    frames: tuple[Frame, ...] = ()
    progress: Progress = field(default_factory=Progress)
    ops: Ops = field(default_factory=Ops)
    p2p: OpenP2P = field(default_factory=OpenP2P)
    gone: tuple[Gone, ...] = ()
    unread: tuple[Unread, ...] = ()
    limits: tuple[Limit, ...] = ()
    settings: Settings = field(default_factory=Settings)


# ---------------------------------------------------------------- what is said


@dataclass(frozen=True, slots=True)
class Where:
    """The line to look at: the innermost frame that is the user's."""

    function: str
    file: str
    line: int


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
