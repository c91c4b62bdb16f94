"""The words for what a thread does and how it sits. Never here: how to find out (classify.py)."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What the code of a thread is about, from its stack."""

    UNREAD = 0
    USER = 1
    COLLECTIVE = 2
    P2P = 3
    BACKWARD = 4
    DATA_LOADING = 5  # waits for batches
    FETCH = 6  # makes a batch: inside the dataset, in a loader worker or in the rank itself
    LOADER_IDLE = 7  # a loader worker with nothing to do
    LOCK = 8
    SLEEP = 9
    FILE_IO = 10
    DEBUGGER = 11
    INPUT = 12
    SUBPROCESS = 13
    HTTP = 14
    BUILDING = 15
    RENDEZVOUS = 16
    TEARDOWN = 17
    CHECKPOINT = 18
    OPTIMIZER = 19
    DEVICE_SYNC = 20
    STEP = 21  # in a compiled step: it computes, waits for data or for others, and Python sees none of it

    @staticmethod
    def named(name: str) -> Kind | None:
        """The kind a signature file means; None for a word that is not one."""
        return Kind.__members__.get(name.upper()) if name != "unread" else None


class Posture(IntEnum):
    """How the kernel sees the thread."""

    UNKNOWN = 0
    BUSY = 1
    ASLEEP = 2  # in a timed sleep
    FUTEX = 3
    DISK = 4  # uninterruptible
    FILE = 5  # in a call on a file, a FIFO or a file lock
    TERMINAL = 6  # reads the keyboard
    SOCKET = 7
    PIPE = 8
    CHILD = 9  # waits for a process to end
    FROZEN = 10  # by SIGSTOP or a tracer; a job that *stopped* has died
    POLL = 11


COMMUNICATING = frozenset({Kind.COLLECTIVE, Kind.P2P})
"""The host is inside a call that others take part in."""

OWN_BUSINESS = frozenset(
    {
        Kind.DATA_LOADING, Kind.FETCH, Kind.LOCK, Kind.SLEEP, Kind.FILE_IO, Kind.DEBUGGER, Kind.INPUT, Kind.SUBPROCESS,
        Kind.HTTP, Kind.BUILDING, Kind.TEARDOWN, Kind.CHECKPOINT, Kind.RENDEZVOUS,
    }
)  # fmt: skip
"""The host waits for nothing that a stream could give it."""
