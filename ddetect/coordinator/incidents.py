"""The incident folders: `incident-NNN/` with verdict.json, report.txt and snapshot.ddsnap. They are the store.

Enters: incidents and snapshots. Leaves: files, each written whole or not at all, and rewritten when more is known.
Never here: deciding anything.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from ddetect.model import Incident, Snapshot, Stage
from ddetect.report.json_ import verdict_json
from ddetect.report.text import format_report
from ddetect.wire.file import write_snapshot

_NAME = re.compile(r"incident-(\d+)$")


class Incidents:
    """The folders under one --out directory."""

    def __init__(self, out: Path) -> None:
        """Raises OSError when the directory cannot be made or written."""
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".ddetect-{os.getpid()}"
        probe.touch()
        probe.unlink()
        self.out = out

    def next_number(self) -> int:
        """One more than the highest there is: earlier incidents are never overwritten."""
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

    def folder(self, incident: Incident) -> Path:
        """Where an incident lives."""
        return self.out / f"incident-{incident.number:03d}"

    def write(self, incident: Incident, snapshot: Snapshot) -> Path:
        """Write or rewrite an incident: the snapshot first, the verdict last, so a reader finds all of it."""
        folder = self.folder(incident)
        folder.mkdir(parents=True, exist_ok=True)
        write_snapshot(folder / "snapshot.ddsnap", snapshot)
        write_text(folder / "report.txt", format_report(incident, folder=str(folder)))
        write_text(folder / "verdict.json", json.dumps(verdict_json(incident), indent=1) + "\n")
        return folder


def write_text(path: Path, text: str) -> None:
    """Replace a file whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
