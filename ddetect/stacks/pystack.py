"""pystack: the second choice, when py-spy does not know the interpreter.

Enters: a pid. Leaves: its Python threads. Run as a program although it is a library: in-process, a target
in D would take the agent's thread with it.
Never here: which mode to take (dump.py decides).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread, parse_pystack
from ddetect.stacks.program import run_dumper


def read_pystack(pid: int, *, blocking: bool, timeout_s: float) -> tuple[SeenThread, ...]:
    """Dump one process. Raises DumpFailed."""
    if find_spec("pystack") is None:
        raise DumpFailed(FailureKind.BROKEN, "pystack is not installed: pip install pystack")
    command = [sys.executable, "-m", "pystack", "remote", str(pid)]
    if not blocking:
        command.append("--no-block")
    text = run_dumper("pystack", pid, command, timeout_s)
    try:
        return parse_pystack(text, pid)
    except ValueError as error:
        raise DumpFailed(FailureKind.BROKEN, f"{error} for pid {pid}") from error
