"""What ddetect said of a run, word by word, and when: from its folders while they are there, or from a replay. Pure
but for `Listener`, which reads.

Enters: verdicts, as `verdict.json` has them. Leaves: `Word`s in the order of time; by CLOCK_MONOTONIC, for that is the
clock by which a program says since when it hangs. Never here: an opinion about what is said.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hangbench.incidents import culprits_of, lines_of

WITHDRAWN, CONFIRMED, CLOSED = "withdrawn", "confirmed", "closed"


@dataclass(frozen=True, slots=True)
class Word:
    """One state of one incident."""

    at: float
    incident: int
    stage: str  # suspected, confirmed, closed, withdrawn
    status: str
    cause: str | None
    ranks: tuple[int, ...]
    lines: tuple[tuple[str, str, int], ...]  # of the culprits: file without its folder, function, line
    confidence: float
    alarm: bool  # it is confirmed, now or before
    summary: str


def word_of(verdict: dict[str, Any], at: float, stage: str = "") -> Word:
    """What a verdict says; `stage`: instead of its own."""
    return Word(
        at=at,
        incident=verdict["incident"],
        stage=stage or verdict["stage"],
        status=verdict["status"],
        cause=verdict["cause"],
        ranks=culprits_of(verdict),
        lines=lines_of(verdict),
        confidence=verdict["confidence"],
        alarm=bool(verdict.get("confirmed_at_unix_ns")),
        summary=verdict["summary"],
    )


def highest(words: list[Word]) -> float:
    """The highest confidence that was ever said."""
    return max((word.confidence for word in words), default=0.0)


def incidents_of(words: list[Word]) -> int:
    """How many were opened: a number that was withdrawn is given again."""
    opened, last = 0, dict[int, str]()
    for word in words:
        if last.get(word.incident, WITHDRAWN) == WITHDRAWN and word.stage != WITHDRAWN:
            opened += 1
        last[word.incident] = word.stage
    return opened


class Listener:
    """Reads the folders again and again, and keeps every word; what was written since the last look is one."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self._read: dict[Path, tuple[int, dict[str, Any]]] = {}

    def look(self, out: Path) -> None:
        """Read what is new. Files are written whole, under another name first."""
        now, ahead = time.monotonic(), time.time() - time.monotonic()
        there = set(out.glob("incident-*/verdict.json"))
        for path in sorted(set(self._read) - there):
            _, verdict = self._read.pop(path)
            self.words.append(word_of(verdict, now, WITHDRAWN))
        for path in sorted(there):
            try:
                written, text = path.stat().st_mtime_ns, path.read_text()
            except OSError:
                continue  # taken back just now: the next look sees it
            if path in self._read and self._read[path][0] == written:
                continue
            verdict = json.loads(text)
            self._read[path] = written, verdict
            self.words.append(word_of(verdict, written / 1e9 - ahead))
