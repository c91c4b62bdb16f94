"""The C++ threads of a process, all of them: one process at a time on a node, and never paused for long.

Enters: a pid. Leaves: its telling threads with their symbols, or DumpFailed: also where the budget forbids to look.
Never here: which process is worth it (the judge asks), whether its framework survives it (the framework says).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ddetect.model import Thread
from ddetect.stacks.budget import PauseBudget
from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.pystack import Paused, read_pystack_native
from ddetect.stacks.symbols import NativeThread

WITHIN_S = 4.0
"""The wall time of a dump, its start included: a look waits for six seconds at most."""


class NativeReader:
    """Use one for all processes of a node, from as many threads as you like."""

    def __init__(
        self,
        budget: PauseBudget | None = None,
        read: Callable[..., tuple[tuple[NativeThread, ...], float]] = read_pystack_native,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget if budget is not None else PauseBudget()
        self._read = read
        self._clock = clock
        self._one = threading.Lock()

    def read(self, pid: int, key: object) -> tuple[NativeThread, ...]:
        """Look at it now, if it may be paused now. `key` is its identity: pids are used again. Raises DumpFailed."""
        if not self._one.acquire(blocking=False):
            raise DumpFailed(FailureKind.BUSY, "another process is being read with its native stacks")
        try:
            allowed_s = self._budget.allowed_s(key, self._clock())
            if not allowed_s:
                raise DumpFailed(FailureKind.BUSY, f"pid {pid} was paused for long enough")
            try:
                threads, paused_s = self._read(pid, pause_s=allowed_s, timeout_s=WITHIN_S)
            except Paused as failed:
                self._budget.note(key, self._clock(), failed.paused_s, failed=True)
                raise
            self._budget.note(key, self._clock(), paused_s, failed=False)
            return threads
        finally:
            self._one.release()


def with_native(seen: Sequence[SeenThread], native: Sequence[NativeThread]) -> tuple[SeenThread, ...]:
    """Python's threads with the symbols of theirs, and behind them the threads that have no Python."""
    by_tid = {one.tid: one.symbols for one in native}
    known = {one.tid for one in seen}
    joined = [replace(one, thread=replace(one.thread, native=by_tid.get(one.tid, ()))) for one in seen]
    joined += [
        SeenThread(one.tid, Thread(one.name, False, False, False, (), native=one.symbols))
        for one in native
        if one.tid not in known and not one.has_python
    ]
    return tuple(joined)
