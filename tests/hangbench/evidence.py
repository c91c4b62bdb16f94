"""What a tool left for a person to read, by one rule for all: files with stacks or with the state of each rank.

Enters: a run's folder. Leaves: the files' names. They are snapshots, recorder dumps, and texts with a line of a stack,
in the folder `kept`; the log counts for tools that speak in it, if a stack in it is said to be a rank's.
Never here: the tool's own opinion of what it kept.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.hangbench.tools.tool import KEPT

_STACK_LINE = re.compile(r'File "[^"\n]+", line \d+|\w+ \([^()\n]+:\d+\)')
_STACK_OF_RANK = re.compile(r'^\[rank\d+\]:\s+File "[^"\n]+", line \d+', re.MULTILINE)
_DUMP = re.compile(r"\.ddsnap$|^rank_\d+$")  # of ddetect, of the Flight Recorder


def evidence_in(folder: Path, *, log: bool) -> str:
    """The names of the files that count."""
    kept = [path for path in sorted(folder.joinpath(KEPT).glob("**/*")) if path.is_file() and _counts(path)]
    logs = [folder / name for name in ("stdout", "stderr")] if log else []
    kept += [path for path in logs if path.exists() and _STACK_OF_RANK.search(_text(path))]
    return ", ".join(str(path.relative_to(folder)) for path in kept)


def _counts(path: Path) -> bool:
    return _DUMP.search(path.name) is not None or _STACK_LINE.search(_text(path)) is not None


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
