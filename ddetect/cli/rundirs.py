"""Find the jobs of this user on this host by their run directories.

Enters: the environment and the file system. Leaves: RunningJob values, newest first.
Never here: gRPC, printing, removing anything (a stale directory is the launcher's to clean).
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LAST_RESORTS = ("/tmp", "/var/tmp")


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A run directory. `coordinator` is empty while none listens; `alive`: a launcher holds its lock."""

    run_dir: Path
    job: str
    command: str
    launcher_pid: int
    started_unix: float
    coordinator: str
    alive: bool


def base_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where launchers of this user put their run directories, in the order in which they try (its rundir.py)."""
    first = environ.get("DDETECT_RUN_BASE") or "/dev/shm"
    temporary = environ.get("TMPDIR") or tempfile.gettempdir()
    bases = dict.fromkeys(map(os.path.abspath, (first, temporary, *LAST_RESORTS)))
    return tuple(Path(base, f"ddetect-{os.getuid()}") for base in bases)


def read_jobs(environ: Mapping[str, str]) -> tuple[RunningJob, ...]:
    """All jobs of this user that still live on this host, newest first."""
    found: list[RunningJob] = []
    for base in base_folders(environ):
        try:
            folders = sorted(base.iterdir())
        except OSError:
            continue
        found += [job for folder in folders if (job := read_job(folder)) is not None and job.alive]
    return tuple(sorted(found, key=lambda job: -job.started_unix))


def read_job(run_dir: Path) -> RunningJob | None:
    """One run directory; None for a folder that is none."""
    try:
        said = json.loads((run_dir / "job.json").read_text())
        command = said.get("command")
        return RunningJob(
            run_dir=run_dir,
            job=str(said.get("job") or run_dir.name),
            command=" ".join(map(str, command)) if isinstance(command, list) else "",
            launcher_pid=int(said.get("launcher_pid") or 0),
            started_unix=float(said.get("started_unix") or 0.0),
            coordinator=_read_line(run_dir / "coordinator"),
            alive=_is_held(run_dir / "members.lock"),
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def _read_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _is_held(path: Path) -> bool:
    """Does a launcher hold the lock? In doubt (no lock file yet, not readable) the job lives."""
    try:
        with open(path, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # given back when the file is closed, at once
    except OSError:
        return True
    return False
