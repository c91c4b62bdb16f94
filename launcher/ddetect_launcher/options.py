"""What the user asked of `ddetect launch`, as values. Never here: reading flags, environments or files."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


def _ddetect(command: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "ddetect", command)


@dataclass(frozen=True)
class Commands:
    """How the two companions are started; tests put stand-ins here."""

    agent: tuple[str, ...] = field(default_factory=lambda: _ddetect("agent"))
    coordinator: tuple[str, ...] = field(default_factory=lambda: _ddetect("coordinator"))


@dataclass(frozen=True)
class Options:
    """The flags of `ddetect launch`, already checked."""

    out: str = "ddetect-out"
    patience_s: float = 300.0
    startup_patience_s: float = 1800.0
    note_after_s: float = 60.0
    on_hang: str = "report"
    notify: str | None = None
    coordinator: str | None = None
    signatures: str | None = None
    quiet: bool = False
