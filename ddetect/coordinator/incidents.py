"""The incident folders: `incident-NNN/` with snapshot.ddsnap, a file per report format and the events that led to it.
They are the store; what was only a pause is one row of `pauses.jsonl` beside them.

Enters: incidents and snapshots. Leaves: files, each written whole or not at all, and rewritten when more is known.
Several jobs may write into one directory: an incident claims its folder when it is first written, and the number
that people see is the folder's. Never here: deciding anything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddetect.model import Incident, Snapshot, Stage
from ddetect.rankset import format_ranks
from ddetect.report.formats import JSON, REPORTS, Report, Shown
from ddetect.wire.file import write_snapshot

EVENTS = "events.ddlog"
PAUSES = "pauses.jsonl"
_NOT_WHOLE = "The event log is not whole: it became too long, or began before an earlier incident.\n"
_NAME = re.compile(r"incident-(\d+)$")


class Incidents:
    """The folders under one --out directory."""

    def __init__(self, out: Path, reports: Sequence[Report] = REPORTS) -> None:
        """Raises OSError when the directory cannot be made or written."""
        # The verdict last: who finds it finds all of the incident.
        self._reports = sorted(reports, key=lambda report: report.file_name == JSON.file_name)
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".ddetect-{os.getpid()}"
        probe.touch()
        probe.unlink()
        self.out = out
        self._numbers: dict[int, int] = {}  # of each incident: the folder that it has, or last tried to have
        self._claimed: set[int] = set()  # those of them that have it
        self._written: set[int] = set()  # and those whose evidence is in it

    def next_number(self) -> int:
        """One more than the highest there is. It is free now; whether it is ours, `write` finds out."""
        numbers = [int(found[1]) for path in self.out.iterdir() if (found := _NAME.search(path.name))]
        return max(numbers, default=0) + 1

    def close_stale(self, job: str) -> None:
        """Close what an earlier coordinator of this job left open; the hang, if it lasts, becomes a new incident."""
        for path in self.out.glob("incident-*/verdict.json"):
            try:
                said = json.loads(path.read_text(encoding="utf-8"))
                if said.get("job") == job and said.get("stage") != Stage.CLOSED.value:
                    reason = "the coordinator was restarted; if it lasts, the next incident tells more"
                    said["stage"] = Stage.CLOSED.value
                    said["closed"] = {
                        "reason": reason,
                        "lasted_s": said["stalled_for_s"],
                        "at_unix_ns": time.time_ns(),
                    }
                    write_text(path, json.dumps(said, indent=1) + "\n")
            except (OSError, ValueError, KeyError):
                continue  # somebody else's file

    def numbered(self, incident: Incident) -> Incident:
        """The incident with the number of its folder: another job may have taken the one it was opened with."""
        return replace(incident, number=self._numbers.get(incident.number, incident.number))

    def folder(self, incident: Incident) -> Path:
        """Where an incident lives; before it is written, where it would like to."""
        return self.out / f"incident-{self.numbered(incident).number:03d}"

    def shown(self, incident: Incident | None) -> str:
        """The folder to show to people; nothing before it was written: a late claim may take another one."""
        return str(self.folder(incident)) if incident and incident.number in self._written else ""

    def write(self, incident: Incident, snapshot: Snapshot) -> Path:
        """Write or rewrite an incident: the snapshot first, the verdict last, so a reader finds all of it."""
        folder, opened_as = self._claim(incident), incident.number
        incident = self.numbered(incident)
        write_snapshot(folder / "snapshot.ddsnap", snapshot)
        for report in self._reports:
            write_text(folder / report.file_name, report(incident, snapshot, Shown(folder=str(folder))))
        self._written.add(opened_as)
        return folder

    def add_events(self, incident: Incident, piece: bytes, *, is_cut: bool = False) -> None:
        """Add a piece to the log of an incident that has its folder; `is_cut`: there will be no more."""
        if incident.number not in self._claimed:
            return
        folder = self.folder(incident)
        if piece:
            with open(folder / EVENTS, "ab") as handle:
                handle.write(piece)
        if is_cut:
            write_text(
                folder / "events.cut",
                _NOT_WHOLE,
            )

    def withdraw(self, incident: Incident, reason: str, lasted_s: float, at_unix_ns: int) -> None:
        """It was nothing: the folder goes, a row stays. Its number is free again."""
        if incident.number in self._claimed:
            shutil.rmtree(self.folder(incident), ignore_errors=True)
        self._claimed.discard(incident.number)
        self._written.discard(incident.number)
        self._numbers.pop(incident.number, None)
        with open(self.out / PAUSES, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(pause_row(incident, reason, lasted_s, at_unix_ns)) + "\n")

    def _claim(self, incident: Incident) -> Path:
        """Make the incident's folder. To make a folder is to own it: where it exists already, the next is tried."""
        while True:
            folder = self.folder(incident)
            try:
                folder.mkdir(parents=True, exist_ok=incident.number in self._claimed)
            except FileExistsError:
                self._claimed.discard(incident.number)
                self._numbers[incident.number] = self.numbered(incident).number + 1
            else:
                self._claimed.add(incident.number)
                return folder


def write_text(path: Path, text: str) -> None:
    """Replace a file whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def pause_row(incident: Incident, reason: str, lasted_s: float, at_unix_ns: int) -> dict[str, Any]:
    """When, how long, who, where: a stillness that ended by itself."""
    verdict = incident.verdict
    places = [culprit.where for culprit in verdict.culprits if culprit.where is not None]
    return {
        "job": incident.job,
        "attempt": incident.attempt,
        "since_unix_ns": incident.last_progress_unix_ns,
        "until_unix_ns": at_unix_ns,
        "lasted_s": round(lasted_s, 3),
        "ranks": format_ranks(verdict.culprit_ranks),
        "where": f"{places[0].file}:{places[0].line} {places[0].function}" if places else None,
        "looked_like": verdict.summary,
        "ended": reason,
    }
