"""py-spy: the first choice. JSON, because only JSON tells who owns the GIL while idle.

Enters: a pid. Leaves: its Python threads, with C symbols when asked. Blocking mode pauses the target for a
few milliseconds and its stacks are consistent; it fails on a stopped target and hangs on one in D.
Never here: which mode to take (dump.py decides).
"""

from __future__ import annotations

from collections.abc import Sequence

from ddetect.frameworks.framework import CallNames
from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.parse import SeenThread, parse_pyspy
from ddetect.stacks.program import find_program, run_dumper


def read_pyspy(
    pid: int, *, blocking: bool, native: bool = False, calls: Sequence[CallNames] = (), timeout_s: float
) -> tuple[SeenThread, ...]:
    """Dump one process, with the arguments of those of its `calls` that it is in. Raises DumpFailed."""
    program = find_program("py-spy")
    if program is None:
        raise DumpFailed(FailureKind.BROKEN, "py-spy is not installed: pip install py-spy")
    command = [program, "dump", "--json", "--pid", str(pid)]
    if native:
        command.append("--native")
    if calls:
        command.append("--locals")
    if not blocking:
        command.append("--nonblocking")
    name = "py-spy" if blocking else "py-spy --nonblocking"
    text = run_dumper(name, pid, command, timeout_s)
    try:
        return parse_pyspy(text, pid, calls)
    except ValueError as error:
        raise DumpFailed(
            FailureKind.BROKEN, f"{name} printed what we cannot read for pid {pid}: {error}"
        ) from error
