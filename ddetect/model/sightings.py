"""What one process looks like at one instant, and how one that ended went.

Enters: nothing. Leaves: frozen values without the identity of a process, so that equal ones are one class of members.
Never here: which member it is (members.py), what it means (ddetect.correlate).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from ddetect.model.members import Role
from ddetect.model.tables import UNKNOWN, Floats, Ints, Table, floats, ints, values

DEVICE_LIBRARY = r"lib(cuda|cudart|amdhip64|hsa-runtime64)\.so"
"""A pattern: a GPU's driver and runtime have no names for most of their functions, so in `Thread.native` the library
stands for them.
"""

UNSEEN_ERROR = "an error"
"""How the exception of a process begins that had no probe to tell it: only its exit code is known."""


class Departure(str, Enum):
    """How a process left."""

    EXITED = "exited"  # its interpreter ended by itself and no exception was seen
    RAISED = "raised"
    VANISHED = "vanished"  # gone without a word: killed, or os._exit


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
        UNKNOWN  # whose thread it is, as the page tells: a lane, never an id, so that equal ranks stay equal
    )
    phase: int = (
        UNKNOWN  # of Python that a compiled step called: DATA where it makes data, OTHER as part of the step
    )


@dataclass(frozen=True, slots=True)
class Raised:
    """The last exception that nobody caught in a process that still lives."""

    exception: str  # "ValueError: bad shard"
    where: Frame | None = None
    fatal: bool = False  # it ends the process; else it only ended one of its threads


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a process did at one instant, without its identity: equal sightings are one class of processes."""

    state: str  # R S D T t Z, or "gone"
    threads: tuple[Thread, ...] = ()
    dumper: str = ""  # py-spy, py-spy --nonblocking, pystack, faulthandler, or nothing
    unread: str = ""  # why there are no stacks, as a sentence; empty when there are
    raised: Raised | None = None

    @property
    def main(self) -> Thread | None:
        """The main thread, if it could be read."""
        return next((t for t in self.threads if t.is_main), None)


@dataclass(frozen=True, slots=True)
class LastCall:
    """The newest call with others that a process made, as its page told when it was gone; empty: not told."""

    inside: bool = False  # it was still inside when it ended
    op: str = ""  # "all_reduce"
    backend: str = ""
    group: str = ""  # the group's own name: "0"
    label: str = ""  # and how a report calls it
    seq: int = UNKNOWN
    root: int = UNKNOWN
    reduce_op: str = ""
    elements: int = UNKNOWN  # of its tensor
    size: int = UNKNOWN  # how many members the group has


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
    code: int = (
        UNKNOWN  # what it exited with, as the kernel told; UNKNOWN where a signal ended it or nobody knows
    )
    last_call: LastCall | None = None
    stack: tuple[Frame, ...] = ()  # of the thread that trains, where a fatal signal made Python write it down
    below: bool = False  # and the thread that the signal met runs no Python
    stderr: tuple[str, ...] = ()  # its last lines, where it is a regular file

    @property
    def is_death(self) -> bool:
        """Whether a rank process ended as it should not."""
        return self.role is Role.RANK and self.how is not Departure.EXITED


@dataclass(frozen=True, eq=False)
class Sample(Table):
    """All processes of the job (loader workers too) at one instant; `sighting` points into `sightings`."""

    rank: Ints = ints()
    role: Ints = ints()  # Role
    index: Ints = ints()  # loader worker index, else UNKNOWN
    pid: Ints = ints()
    sighting: Ints = ints(into="sightings")
    fetching: Ints = ints()  # dataset index a loader is fetching, else UNKNOWN
    fetch_age_s: Floats = floats(age=True)  # how long that fetch lasts; inf if none
    cpu_s: Floats = floats()
    io_bytes: Ints = ints()
    tick_age_s: Floats = floats(age=True)
    sightings: tuple[Sighting, ...] = values(Sighting)
    # Percent, of the GPUs this process is on; UNKNOWN if it is on one and nobody told; nan if on none.
    gpu_busy: Floats = floats(fill=math.nan)
    # How long the window of `Look.efforts` is; nan where nothing was metered: a first look, or nothing to read.
    metered_s: Floats = floats(fill=math.nan)
    # What the whole process moved in that window: its /proc/PID/io and all its TCP sockets.
    moved_bytes: Ints = ints(fill=UNKNOWN)
    own_session: Ints = ints(fill=0)  # 1: a child in a session of its own: a daemon, most likely
