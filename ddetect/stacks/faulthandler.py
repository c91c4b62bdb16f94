"""faulthandler: where ptrace is forbidden. The interpreter writes its own stacks on a signal.

Enters: a pid, the file the probe opened and the signal it registered. Leaves: the Python threads.
Never here: a signal to a process that does not catch it (that would kill it).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread, parse_faulthandler

_LOOK_EVERY_S = 0.01
_QUIET_S = 0.03  # the handler writes line by line; this long without growth and it is done


@dataclass(frozen=True, slots=True)
class FaultFile:
    """How to make a process write its stacks."""

    path: str
    signal: int


def read_faulthandler(pid: int, fault: FaultFile, *, timeout_s: float) -> tuple[SeenThread, ...]:
    """Ask the process and wait for its answer. Raises DumpFailed."""
    if not catches(pid, fault.signal):
        raise DumpFailed(
            FailureKind.BROKEN, f"pid {pid} does not catch signal {fault.signal}, so it was not asked"
        )
    try:
        before = os.path.getsize(fault.path)
        os.kill(pid, fault.signal)
        text = _read_growth(fault.path, before, timeout_s)
    except OSError as error:
        raise DumpFailed(
            FailureKind.BROKEN, f"pid {pid} could not be asked for its stacks: {error}"
        ) from error
    try:
        return parse_faulthandler(text)
    except ValueError:
        raise DumpFailed(
            FailureKind.BUSY, f"pid {pid} did not write its stacks within {timeout_s:.1f} s"
        ) from None


def _read_growth(path: str, before: int, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    size, grown_at = before, time.monotonic()
    while True:
        now = time.monotonic()
        latest = os.path.getsize(path)
        if latest != size:
            size, grown_at = latest, now
        if now > deadline or (size > before and now - grown_at > _QUIET_S):
            break
        time.sleep(_LOOK_EVERY_S)
    with open(path, "rb") as handle:
        handle.seek(before)
        return handle.read(1 << 20).decode("utf-8", "replace")


def catches(pid: int, signal: int) -> bool:
    """Whether the process has a handler for the signal: without one, the signal would kill it."""
    if signal <= 0:
        return False
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            for line in status:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signal - 1) & 1)
    except (OSError, ValueError, IndexError):
        pass
    return False
