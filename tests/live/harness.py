"""Run a scenario under `ddetect launch`, wait for the verdict, end everything, and look what was left behind.

Enters: a scenario's name and its parameters. Leaves: a `Result`; or a `ScenarioFailed` that shows what was seen.
Never here: an opinion about the verdict; a process that outlives the call (this process adopts orphans while it
watches, so nothing that the job or ddetect started can hide).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from ddetect.scenarios.catalogue import SCENARIOS, Params, command
from ddetect.scenarios.starting import require

Until = Literal["suspected", "confirmed", "end"]

LOOK_EVERY_S = 0.1
GRACE_S = 45.0  # from SIGTERM to the launcher until everything must be gone
_PR_SET_CHILD_SUBREAPER = 36
_TAIL = 3000


class ScenarioFailed(AssertionError):
    """The wanted verdict did not come, or something stayed behind; the text shows what was seen."""

    def __init__(self, seen: str, incidents: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(seen)
        self.incidents = incidents


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left: the verdict that was waited for, and all the rest."""

    params: Params
    verdict: dict[str, Any]  # as it was when it came; empty when the job was to end and nothing was said
    report: str
    incidents: tuple[dict[str, Any], ...]  # as they were when all was over
    stdout: str
    stderr: str  # the job's and the launcher's share one stream, as in a terminal
    exit_code: int

    @property
    def culprit_ranks(self) -> tuple[int, ...]:
        """The ranks named."""
        return tuple(sorted({culprit["rank"] for culprit in self.verdict["culprits"]}))

    @property
    def to_suspicion_s(self) -> float:
        """From the last progress to the first judgement on disk."""
        return float(self.verdict["judged_at_unix_ns"] - self.verdict["last_progress_unix_ns"]) / 1e9

    @property
    def to_alarm_s(self) -> float:
        """From the last progress to the confirmation."""
        return float(self.verdict["confirmed_at_unix_ns"] - self.verdict["last_progress_unix_ns"]) / 1e9


def run_scenario(
    name: str,
    *,
    rank: int = 2,
    world_size: int = 4,
    at: int = 40,
    step_ms: int = 50,
    patience: float = 6.0,
    until: Until = "confirmed",
    timeout_s: float = 120.0,
    extra: tuple[str, ...] = (),
    launch_options: tuple[str, ...] = (),
    keep: Path | None = None,
    on_start: Callable[[int], object] = lambda pid: None,
    cause: str | None = None,
    let_end_s: float = 0.0,
) -> Result:
    """Run one scenario until its verdict has the wanted stage (or until the job ends), then end it.

    With a `cause` only a verdict that names it is waited for: on a busy machine a slow step may be suspected first.
    """
    params = Params(rank=rank, world_size=world_size, at=at, step_ms=step_ms, extra=extra)
    scenario = SCENARIOS[name]
    require(scenario)
    return run_job(
        command(scenario, params),
        params,
        patience=patience,
        until=until,
        timeout_s=timeout_s,
        incidents=scenario.incidents,
        launch_options=launch_options,
        keep=keep,
        on_start=on_start,
        cause=cause,
        let_end_s=let_end_s,
    )


def run_job(
    job: list[str],
    params: Params,
    *,
    patience: float,
    until: Until,
    timeout_s: float,
    incidents: int = 1,
    launch_options: tuple[str, ...] = (),
    keep: Path | None = None,
    on_start: Callable[[int], object] = lambda pid: None,
    cause: str | None = None,
    let_end_s: float = 0.0,
) -> Result:
    """Run any command line under `ddetect launch` in the same way.

    `keep`: where the wanted incident's folder is copied, as it is when it comes. `on_start` hears the launcher's pid.
    `let_end_s`: how long the job may take to end by itself (`--on-hang stop`) before it is ended.
    """
    with adopted_orphans(), short_folder() as folder:
        run_base, out = folder / "run", folder / "out"
        spared = descendants()
        run_base.mkdir()
        options = ["--out", str(out), "--patience", str(patience), *launch_options]
        with open(folder / "stdout", "wb") as stdout, open(folder / "stderr", "wb") as stderr:
            launcher = subprocess.Popen(
                [sys.executable, "-m", "ddetect", "launch", *options, *job],
                stdin=subprocess.PIPE,  # never written to and never closed: a debugger prompt waits for it
                stdout=stdout,
                stderr=stderr,
                env=_environment(run_base),
                start_new_session=True,
            )
        try:
            on_start(launcher.pid)
            want = _Want(until, incidents, cause)
            problem = _wait(launcher, out, want, timeout_s)
            seen = f"{problem}\n{_describe(folder)}" if problem else ""
            wanted = _wanted(out, want)  # read now: ending the job may add to what is said
            report = _text(wanted[0].with_name("report.txt")) if wanted else ""
            if keep and wanted:
                shutil.copytree(wanted[0].parent, keep, dirs_exist_ok=True)
            _let_end(launcher, let_end_s)
        finally:
            # A launcher that had to be killed could not tidy up: that is one finding, not two.
            leftovers = end_all(launcher, spared) or [str(path) for path in run_base.glob("*/*")]
        told = tuple(verdict for _, verdict in read_incidents(out))
        if seen:
            raise ScenarioFailed(seen, told)
        if leftovers:
            raise ScenarioFailed(f"left behind: {leftovers}\n{_describe(folder)}", told)
        return Result(
            params=params,
            verdict=wanted[1] if wanted else {},
            report=report,
            incidents=told,
            stdout=_text(folder / "stdout"),
            stderr=_text(folder / "stderr"),
            exit_code=launcher.returncode,
        )


def read_incidents(out: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Every incident on disk, oldest first."""
    return [(path, json.loads(path.read_text())) for path in sorted(out.glob("incident-*/verdict.json"))]


@dataclass(frozen=True, slots=True)
class _Want:
    """What a caller waits for: so many incidents of that stage (and cause, if it matters)."""

    until: Until
    count: int
    cause: str | None


def _wanted(out: Path, want: _Want) -> tuple[Path, dict[str, Any]] | None:
    """The newest incident that has come as far as the caller wants, once there are that many."""
    incidents = [item for item in read_incidents(out) if want.cause in (None, item[1]["cause"])]
    if want.until == "confirmed":
        incidents = [item for item in incidents if item[1].get("confirmed_at_unix_ns")]
    return incidents[-1] if len(incidents) >= want.count else None


def _wait(launcher: subprocess.Popen[bytes], out: Path, want: _Want, timeout_s: float) -> str:
    """Wait for what is wanted; the reason in words when it does not come."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = launcher.poll() is not None  # asked first: its last verdict is on disk before it ends
        if want.until == "end":
            if ended:
                return ""
        elif _wanted(out, want) is not None:
            return ""
        elif ended:
            return f"the job ended (exit code {launcher.returncode}) and no verdict was {want.until}"
        time.sleep(LOOK_EVERY_S)
    return f"nothing after {timeout_s:.0f} s: wanted {want}"


def _let_end(launcher: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a job that somebody else is about to end."""
    try:
        launcher.wait(seconds)
    except subprocess.TimeoutExpired:
        pass  # it is ended as any other


def _environment(run_base: Path) -> dict[str, str]:
    scripts = os.path.dirname(sys.executable)
    return {
        **os.environ,
        "PATH": scripts + os.pathsep + os.environ.get("PATH", ""),
        "DDETECT_RUN_BASE": str(run_base),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3",  # a stopped rank does not hear SIGTERM; torchrun's default is 30
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def adopted_orphans() -> Iterator[None]:
    """While this lasts, whatever loses its parent becomes ours and can be found."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A short path in memory: unix sockets must fit into 107 characters."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="ddt-", dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_all(launcher: subprocess.Popen[bytes], spared: frozenset[int]) -> list[str]:
    """End the job as a user would, then by force; what had to be forced is returned."""
    if launcher.poll() is None:
        launcher.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while (launcher.poll() is None or _alive(spared)) and time.monotonic() < deadline:
        _reap_adopted(launcher.pid, spared)
        time.sleep(LOOK_EVERY_S)
    leftovers = [f"{process.pid} {_words(process)}" for process in _alive(spared)]
    kill_all(spared, launcher.pid)
    launcher.wait()
    _reap_adopted(launcher.pid, spared)
    if launcher.stdin:
        launcher.stdin.close()
    return leftovers


def kill_all(spared: frozenset[int], launcher: int = 0) -> None:
    """End by force what descends from this process, and wait for it; the launcher belongs to its Popen."""
    while remaining := _alive(spared):
        for process in remaining:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                pass
        _reap_adopted(launcher, spared)
        time.sleep(LOOK_EVERY_S)


def descendants() -> frozenset[int]:
    """The processes below this one."""
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


def _children(spared: frozenset[int]) -> list[psutil.Process]:
    """All that descends from this process, adopted orphans included, but for what was there before."""
    return [child for child in psutil.Process().children(recursive=True) if child.pid not in spared]


def _alive(spared: frozenset[int]) -> list[psutil.Process]:
    alive = []
    for process in _children(spared):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
        except psutil.NoSuchProcess:
            pass
    return alive


def _reap_adopted(launcher: int, spared: frozenset[int]) -> None:
    """Wait for orphans that ended as ours."""
    for process in _children(spared):
        if process.pid != launcher:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                pass  # somebody else's child


def _words(process: psutil.Process) -> str:
    try:
        return f"({process.status()}) {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return "gone"


def _describe(folder: Path) -> str:
    """What a person needs to see when a run failed."""
    parts = []
    for path, verdict in read_incidents(folder / "out"):
        parts.append(f"--- {path.parent.name}/verdict.json\n{json.dumps(verdict, indent=1)}")
        parts.append(f"--- {path.parent.name}/report.txt\n{_text(path.with_name('report.txt'))}")
    logs = sorted((folder / "run").glob("**/*.log")) + sorted((folder / "out").glob("**/*.log"))
    for path in [folder / "stdout", folder / "stderr", *logs]:
        parts.append(f"--- {path.name} (its end)\n{_text(path)[-_TAIL:]}")
    return "\n".join(parts)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
