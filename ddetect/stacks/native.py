"""The C++ threads of a process, all of them: one process at a time on a node, and never paused for long.

Enters: a pid. Leaves: its telling threads with their symbols, or DumpFailed: also where the budget forbids to look.
Never here: which process is worth it (the judge asks), whether its framework survives it (the framework says).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ddetect.model import Thread
from ddetect.stacks.budget import PauseBudget
from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.program import run_pausing
from ddetect.stacks.pystack import Paused, read_pystack_native
from ddetect.stacks.symbols import NativeThread, parse_native

WITHIN_S = 5.0
"""The wall time of a dump, its start included: a look waits for six seconds at most."""


def read_threads(pid: int, *, pause_s: float, timeout_s: float) -> tuple[tuple[NativeThread, ...], float]:
    """The threads that tell something, and how long the process stood still. Raises Paused.

    Our own program pauses it for milliseconds; pystack, which names the symbols while it stands still, for a second or
    two, and knows more systems.
    """
    command = [sys.executable, "-m", "ddetect.stacks.unwind", str(pid)]
    deadline = time.monotonic() + timeout_s
    ran = run_pausing("unwind", pid, command, pause_s=pause_s, timeout_s=timeout_s)
    if ran.failed is None:
        try:
            return parse_native(ran.printed), ran.paused_s
        except ValueError as error:
            ran = replace(ran, failed=DumpFailed(FailureKind.BROKEN, f"{error} for pid {pid}"))
    assert ran.failed is not None
    if ran.failed.kind is not FailureKind.BROKEN:
        raise Paused(ran.failed, ran.paused_s)
    left_s = max(0.0, deadline - time.monotonic())
    return read_pystack_native(pid, pause_s=pause_s - ran.paused_s, timeout_s=left_s)


class NativeReader:
    """Use one for all processes of a node, from as many threads as you like."""

    def __init__(
        self,
        budget: PauseBudget | None = None,
        read: Callable[..., tuple[tuple[NativeThread, ...], float]] = read_threads,
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
