"""pystack: the second choice, when py-spy does not know the interpreter; the only one for threads without Python.

Enters: a pid. Leaves: its Python threads; or all its threads that tell something, in C symbols, and how long it was
paused for that. Run as a program although it is a library: in-process, a target in D would take the agent's thread
with it.
Never here: which mode to take (dump.py decides), how often (native.py).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread, parse_pystack
from ddetect.stacks.program import run_dumper, run_pausing
from ddetect.stacks.symbols import NativeThread, parse_native


class Paused(DumpFailed):
    """A dump that failed, and how long the process stood still for it."""

    def __init__(self, failed: DumpFailed, paused_s: float) -> None:
        super().__init__(failed.kind, failed.reason)
        self.paused_s = paused_s


def read_pystack(pid: int, *, blocking: bool, timeout_s: float) -> tuple[SeenThread, ...]:
    """Dump one process. Raises DumpFailed."""
    command = _command(pid)
    if not blocking:
        command.append("--no-block")
    text = run_dumper("pystack", pid, command, timeout_s)
    try:
        return parse_pystack(text, pid)
    except ValueError as error:
        raise DumpFailed(FailureKind.BROKEN, f"{error} for pid {pid}") from error


def read_pystack_native(
    pid: int, *, pause_s: float, timeout_s: float
) -> tuple[tuple[NativeThread, ...], float]:
    """The threads that tell something, and how long the process was paused. Raises Paused."""
    paused_s = 0.0
    try:
        done = run_pausing(
            "pystack --native-all",
            pid,
            [*_command(pid), "--native-all"],
            pause_s=pause_s,
            timeout_s=timeout_s,
        )
        paused_s = done.paused_s
        if done.failed is not None:
            raise done.failed
        return parse_native(done.printed), paused_s
    except ValueError as error:
        raise Paused(DumpFailed(FailureKind.BROKEN, f"{error} for pid {pid}"), paused_s) from error
    except DumpFailed as failed:
        raise Paused(failed, paused_s) from failed


def _command(pid: int) -> list[str]:
    if find_spec("pystack") is None:
        raise DumpFailed(FailureKind.BROKEN, "pystack is not installed: pip install pystack")
    return [sys.executable, "-m", "pystack", "remote", str(pid)]
