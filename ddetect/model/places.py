"""Where something happens: a line, a process inside a rank. Enters: nothing. Leaves: frozen values.

Never here: whose line it is (ddetect.correlate), how it is written (ddetect.report).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """The line to look at: the innermost frame that is the user's; where none is, a library's, and marked so."""

    function: str
    file: str
    line: int
    library: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """The process inside a rank that is at fault, when it is not the rank process itself."""

    role: str  # "loader_worker", "child_process"
    index: int
    pid: int
