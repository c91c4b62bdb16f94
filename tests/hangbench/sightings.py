"""When an answer of ddetect's could be read: by the time at which its file was written, whatever stands in it.

Enters: a folder of incidents, looked at again and again. Leaves: since when the last answer stood there.
Never here: an opinion about the answer, or ddetect's own words about when it was given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Answer = tuple[str, str | None, tuple[int, ...]]


def answer_of(verdict: dict[str, Any]) -> Answer:
    """Status, cause and ranks."""
    return verdict["status"], verdict["cause"], tuple(sorted({one["rank"] for one in verdict["culprits"]}))


class Sightings:
    """What stood in each incident, and since when."""

    def __init__(self) -> None:
        self._read: dict[Path, int] = {}  # when the version that was read last had been written
        self._said: dict[int, list[tuple[float, Answer]]] = {}

    def look(self, out: Path) -> None:
        """Read what was written since the last look."""
        for path in out.glob("incident-*/verdict.json"):
            try:
                written, text = path.stat().st_mtime_ns, path.read_text()
            except OSError:
                continue  # taken back just now
            if self._read.get(path) == written:
                continue
            self._read[path] = written
            verdict = json.loads(text)
            self.note(verdict["incident"], written / 1e9, answer_of(verdict))

    def note(self, incident: int, at: float, answer: Answer) -> None:
        """Another answer is there since then; the same one again changes nothing."""
        said = self._said.setdefault(incident, [])
        if not said or said[-1][1] != answer:
            said.append((at, answer))

    def since(self, verdict: dict[str, Any]) -> float | None:
        """Since when the answer of this verdict stood in its incident; None: nobody saw it."""
        said = self._said.get(verdict["incident"], [])
        return next((at for at, answer in reversed(said) if answer == answer_of(verdict)), None)
