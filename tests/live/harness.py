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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import psutil

from ddetect.scenarios.catalogue import SCENARIOS, Params, command
from ddetect.scenarios.starting import require
from tests.live.ends import SIGTERM, End, Ended, Running, controlling_terminal
from tests.live.replayed import differences

Until = Literal["suspected", "confirmed", "end"]

LOOK_EVERY_S = 0.1
GRACE_S = 45.0  # from SIGTERM to the launcher until it must be gone
SETTLE_S = 5.0  # from the launcher's end until everything must be
_PR_SET_CHILD_SUBREAPER = 36
_TAIL = 3000
NOT_WHOLE_YET = shutil.ignore_patterns(".*")  # written under such a name, and then renamed


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
    folders: tuple[str, ...]  # of incidents that were there then, whatever is in them
    stdout: str
    stderr: str  # the job's and the launcher's share one stream, as in a terminal
    exit_code: int
    ended_by: str  # the end that came; "" when the job was to end and did
    problem: str  # what did not come, or went otherwise than this end should
    left: tuple[str, ...]  # processes and run directories that outlived the end
    outlived: tuple[int, ...]  # pids of the job after an end that is not for it: SIGKILL of the launcher
    out: Path  # where the incidents are, while the run's folder is there

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
    **how: Any,
) -> Result:
    """Run one scenario until its verdict has the wanted stage (or until the job ends), then end it; see `watch_job`."""
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
        **how,
    )


def run_job(job: list[str], params: Params, **how: Any) -> Result:
    """Run any command line in the same way; what did not come, or was left behind, is raised."""
    result = watch_job(job, params, **how)
    if result.problem:
        raise ScenarioFailed(result.problem, result.incidents)
    if result.left:
        raise ScenarioFailed(f"left behind: {list(result.left)}\n{result.stderr[-_TAIL:]}", result.incidents)
    return result


def watch_job(
    job: list[str],
    params: Params,
    *,
    patience: float | None,
    until: Until,
    timeout_s: float,
    incidents: int = 1,
    cause: str | None = None,
    end: End = SIGTERM,
    end_after_s: float = 0.0,
    launch_options: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
    keep: Path | None = None,
    keep_after: Path | None = None,
    on_start: Callable[[int], object] = lambda pid: None,
    on_look: Callable[[Path], object] = lambda out: None,
    replays: bool = True,
) -> Result:
    """Run any command line under `ddetect launch`; nothing is raised about what it left.

    Without a `patience` it has its default.
    With a `cause` only a verdict that names it is waited for: on a busy machine a slow step may be suspected first.
    `end`: how the job is ended once the wanted verdict has come, so long after it. `stdout`: where the launcher writes,
    instead of a file. `keep`: where the wanted incident's folder is copied, as it is when it comes; `keep_after`: where
    all of them are, when all is over. `on_start` hears the launcher's pid, `on_look` where incidents are written.
    `replays`: whether each incident must come out of its own events again.
    """
    with (
        adopted_orphans(),
        short_folder() as folder,
        controlling_terminal(end.on_terminal) as (terminal, take_terminal),
    ):
        run_base, out = folder / "run", folder / "out"
        spared = descendants()
        run_base.mkdir()
        patiently = ["--patience", str(patience)] if patience is not None else []
        options = ["--out", str(out), *patiently, *end.launch_options, *launch_options]
        with open(folder / "stdout", "wb") as own_stdout, open(folder / "stderr", "wb") as stderr:
            launcher = subprocess.Popen(
                [sys.executable, "-m", "ddetect", "launch", *options, *job],
                stdin=subprocess.PIPE,  # never written to and never closed: a debugger prompt waits for it
                stdout=stdout or own_stdout,
                stderr=stderr,
                env={**_environment(run_base), **(env or {})},
                start_new_session=True,
                preexec_fn=take_terminal,
            )
        ended = Ended("")
        try:
            on_start(launcher.pid)
            want = _Want(until, incidents, cause, end.by_itself)
            problem = _wait(launcher, out, want, timeout_s, on_look)
            wanted = _wanted(out, want)  # read now: ending the job may add to what is said
            report = _text(wanted[0].with_name("report.txt")) if wanted else ""
            if keep and wanted:
                shutil.copytree(wanted[0].parent, keep, dirs_exist_ok=True, ignore=NOT_WHOLE_YET)
            if until != "end" and not problem:
                time.sleep(end_after_s)
                ended = end.do(Running(launcher, terminal))
        finally:
            # A launcher that had to be killed could not tidy up: that is one finding, not two.
            left = end_all(launcher, spared) or [str(path) for path in run_base.glob("*/*")]
        problem = problem or ended.problem
        if end.by_itself and wanted is None:  # it ended first: whatever it left is what was said
            wanted = _wanted(out, replace(want, until="suspected"))
        if keep_after and out.exists():
            shutil.copytree(out, keep_after, dirs_exist_ok=True)
        result = Result(
            params=params,
            verdict=wanted[1] if wanted else {},
            report=report,
            incidents=tuple(verdict for _, verdict in read_incidents(out)),
            folders=tuple(sorted(path.name for path in out.glob("incident-*"))),
            stdout=_text(folder / "stdout"),
            stderr=_text(folder / "stderr"),
            exit_code=launcher.returncode,
            ended_by=ended.by,
            problem=f"{problem}\n{_describe(folder)}" if problem else "",
            left=tuple(left),
            outlived=ended.outlived,
            out=out,
        )
        if replays:
            assert_replays(result)
        return result


def assert_replays(result: Result) -> None:
    """The events that an incident has in its folder, played again in a fresh process, give the same incident."""
    wrong = differences(result.out)
    assert wrong == [], wrong


def read_incidents(out: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Every incident on disk, oldest first."""
    return [(path, json.loads(path.read_text())) for path in sorted(out.glob("incident-*/verdict.json"))]


@dataclass(frozen=True, slots=True)
class _Want:
    """What a caller waits for: so many incidents of that stage (and cause, if it matters)."""

    until: Until
    count: int
    cause: str | None
    by_itself: bool = False  # the job may end before; then what it left is what was wanted


def _wanted(out: Path, want: _Want) -> tuple[Path, dict[str, Any]] | None:
    """The newest incident that has come as far as the caller wants, once there are that many."""
    incidents = [item for item in read_incidents(out) if want.cause in (None, item[1]["cause"])]
    if want.until == "confirmed":
        incidents = [item for item in incidents if item[1].get("confirmed_at_unix_ns")]
    return incidents[-1] if len(incidents) >= want.count else None


def _wait(
    launcher: subprocess.Popen[bytes],
    out: Path,
    want: _Want,
    timeout_s: float,
    on_look: Callable[[Path], object],
) -> str:
    """Wait for what is wanted; the reason in words when it does not come."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = launcher.poll() is not None  # asked first: its last verdict is on disk before it ends
        on_look(out)
        if want.until == "end":
            if ended:
                return ""
        elif _wanted(out, want) is not None or (ended and want.by_itself):
            return ""
        elif ended:
            return f"the job ended (exit code {launcher.returncode}) and no verdict was {want.until}"
        time.sleep(LOOK_EVERY_S)
    return f"nothing after {timeout_s:.0f} s: wanted {want}"


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
    """End what has not ended as a user would, then by force; what had to be forced is returned."""
    if launcher.poll() is None:
        launcher.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while launcher.poll() is None and time.monotonic() < deadline:
        _reap_adopted(launcher.pid, spared)
        time.sleep(LOOK_EVERY_S)
    deadline = time.monotonic() + SETTLE_S
    while (alive := _alive(spared)) and time.monotonic() < deadline:
        _reap_adopted(launcher.pid, spared)
        time.sleep(LOOK_EVERY_S)
    leftovers = [f"{process.pid} {_words(process)}" for process in alive]
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
