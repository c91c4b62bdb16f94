"""Why a dumper gave no stacks.

Enters: what it printed. Leaves: a kind, which decides whether another dumper is worth trying, and a
sentence.
Never here: processes.
"""

from __future__ import annotations

from enum import Enum


class FailureKind(Enum):
    """What a failed dump means for the next dumper."""

    GONE = "gone"  # nobody can
    NOT_PYTHON = "not python"  # nobody can
    DENIED = "denied"  # no dumper that uses ptrace can
    BUSY = "busy"  # suspended, traced or too slow: try without stopping it
    BROKEN = "broken"  # this dumper, this time


class DumpFailed(Exception):
    """A dumper gave no stacks; `reason` is a sentence for the user."""

    def __init__(self, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def explain(dumper: str, pid: int, printed: str) -> DumpFailed:
    """Tell the failures apart. A dead pid and a missing permission begin with the same line in py-spy."""
    low = printed.lower()
    if "os error 2)" in low or "no such process" in low or "os error 3)" in low:
        return DumpFailed(FailureKind.GONE, f"pid {pid} is gone")
    if "failed to find python version" in low or "could not determine python version" in low:
        return DumpFailed(FailureKind.NOT_PYTHON, f"pid {pid} is not a Python program")
    if any(words in low for words in ("permission denied", "os error 13", "os error 1)", "not permitted")):
        return DumpFailed(
            FailureKind.DENIED, f"{dumper} may not look into pid {pid}: the kernel denies ptrace"
        )
    if "suspend" in low or "waitpid" in low:
        return DumpFailed(FailureKind.BUSY, f"{dumper} could not pause pid {pid}")
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    last = lines[-1][:200] if lines else "it printed nothing"
    return DumpFailed(FailureKind.BROKEN, f"{dumper} failed on pid {pid}: {last}")
