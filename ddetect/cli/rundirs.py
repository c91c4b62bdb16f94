"""Find the jobs of this user on this host by their run directories.

Enters: the environment and the file system. Leaves: RunningJob values, newest first.
Never here: gRPC, printing, removing anything (a stale directory is the launcher's to clean).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddetect_probe import rundir


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
    """Where launchers of this user put their run directories, in the order in which they try."""
    return tuple(map(Path, rundir.user_folders(environ)))


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
    about = rundir.read_about(str(run_dir))
    if about is None:
        return None
    return RunningJob(
        run_dir=run_dir,
        job=about.job or run_dir.name,
        command=" ".join(about.command),
        launcher_pid=about.launcher_pid,
        started_unix=about.started_unix,
        coordinator=rundir.read_coordinator(str(run_dir)),
        alive=not rundir.job_is_over(str(run_dir)),
    )
