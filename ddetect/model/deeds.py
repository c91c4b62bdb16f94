"""What one member does, as a value: the act, where, in which operation, in which process.

A closed vocabulary: an `Act`, and what belongs to it. Members are numbers (rank and lane in one). Enters: nothing.
Leaves: frozen values. Never here: English (ddetect.report makes it of these), what is found of several (claims.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from ddetect.model.places import Process, Where
from ddetect.model.tables import UNKNOWN

Members = tuple[int, ...]


class Act(Enum):
    """What a member does, or did. The field of the Deed that it needs stands behind it."""

    # how a thread sits
    IS_THERE = auto()  # nothing more is known
    IS_BUSY = auto()
    SLEEPS = auto()
    WAITS_ON_FUTEX = auto()
    IS_IN_KERNEL = auto()  # state D; target
    WAITS_FOR_FILE = auto()  # target
    WAITS_FOR_INPUT = auto()
    WAITS_FOR_NETWORK = auto()
    WAITS_FOR_PIPE = auto()
    WAITS_FOR_CHILD = auto()
    # its own business
    IS_STOPPED = auto()
    IS_TRACED = auto()
    HOLDS_GIL = auto()
    IS_AT_DEBUGGER = auto()
    COMPILES = auto()
    SAVES = auto()  # or loads a checkpoint
    WAITS_FOR_LOCK = auto()  # or for another thread
    AWAITS_THREAD = auto()  # thread, and `others` like it: who works for it; inner: what that does
    AWAITS_CHILD = auto()  # the same of child processes; process
    WAITS_FOR_PROCESS = auto()
    WAITS_FOR_ANSWER = auto()  # of a server
    WAITS_FOR_DEVICE = auto()
    IS_IN_BACKWARD = auto()
    IS_IN_OPTIMIZER = auto()
    IS_IN_STEP = auto()  # a compiled one, and Python does not see what it waits for
    IS_UNREAD = auto()  # said: why
    # data
    LOADS_DATA = auto()  # in its own process; inner: how
    WAITS_FOR_BATCH = auto()
    WAITS_FOR_LOADER = auto()  # process or thread: who does not deliver; inner: what that does
    WAITS_FOR_IDLE_LOADER = auto()  # all its workers wait for work
    # coming and going
    NEVER_STARTED = auto()
    HAS_NOT_JOINED = auto()
    CANNOT_JOIN = auto()
    IS_IN_CALL = auto()  # op
    WORKS_BEFORE_CALL = auto()  # op; inner: how
    IS_IN_UNSEEN_CALL = auto()  # op, which its recorder does not show
    WAITS_IN = auto()  # op
    CALLED = auto()  # call
    HAS_NOT_BEGUN = auto()  # op, on its device
    HAS_NOT_FINISHED = auto()  # op, on its device
    LEFT_GROUP = auto()
    LEAVES = auto()  # is on its way out
    EXITED = auto()
    LEFT_EARLY = auto()  # seen when it was over
    # the end
    RAISED = auto()  # said
    RAISED_AND_STAYS = auto()  # said
    TIMED_OUT = auto()  # waiting for a peer
    WAS_KILLED = auto()
    WAS_ENDED_BY = auto()  # signal
    WAS_ABORTED = auto()  # op, by its framework
    EXITED_WITH = auto()  # said: the code
    VANISHED = auto()  # and nobody saw how
    LOST_WORKER = auto()
    FELL_SILENT = auto()


@dataclass(frozen=True, slots=True)
class OpLabel:
    """An operation as it is referred to: all_reduce, number 412, of default_pg."""

    name: str  # empty: nobody knows in which
    seq: int | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class CallMade:
    """An operation with what was asked of it; empty and UNKNOWN: not told, or of no importance."""

    op: str
    sizes: str = ""
    dtypes: str = ""
    root: int = UNKNOWN
    reduce_op: str = ""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """What a thread waits for in the kernel: flock, on /data/x.lock."""

    name: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """What one member does: the act, where, and what the act is about."""

    act: Act
    where: Where | None = None
    target: KernelCall | None = None
    said: str = ""  # an exception, or a reason
    op: OpLabel | None = None
    call: CallMade | None = None
    signal: int = 0
    process: Process | None = None
    thread: str = ""
    inner: Deed | None = None
    others: int = 0  # so many more do the same as `process` or `thread`


@dataclass(frozen=True, slots=True)
class StuckIn:
    """Members that are in an operation and do not come out."""

    members: Members
    op: OpLabel


class Part(Enum):
    """What callers of one operation may disagree on."""

    OP = "op"
    SHAPE = "shape"
    DTYPE = "dtype"
    ROOT = "root"
    REDUCE_OP = "reduce op"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Side:
    """Members that made the same call; `seen`: their stacks show it, no recorder tells it."""

    members: Members
    call: CallMade
    where: Where | None = None
    seen: bool = False


class Through(Enum):
    """What makes a circle of members that wait for each other."""

    GROUPS = auto()
    SEND_AND_RECEIVE = auto()
    MIXED = auto()  # a send or receive, and a collective
