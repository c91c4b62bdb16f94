"""`ddetect demo`: a real job gets stuck on purpose, under the real `ddetect launch`, and is named.

Enters: a scenario's name. Leaves: the report on stdout, what happens meanwhile on stderr, an exit code: 0 when the
verdict is the scenario's truth. Never here: judging; a process that outlives the command, also after ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import psutil
from ddetect_probe import rundir

from ddetect.cli.rundirs import read_jobs
from ddetect.errors import DdetectError, UsageError
from ddetect.scenarios.catalogue import SCENARIOS, Params, Scenario, command
from ddetect.scenarios.starting import require

DEFAULTS = {"torch": "data_worker_stuck", "tensorflow": "tf_generator"}
PARAMS = {"torch": Params(), "tensorflow": Params(rank=1, world_size=3)}
YOUR_OWN = {
    "torch": "ddetect launch torchrun --nproc-per-node 8 train.py",
    "tensorflow": "ddetect launch python train.py",
}
PATIENCE_S = 5
TIMEOUT_S = 120
_POLL_S = 0.25
_TAIL = 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ddetect demo`."""
    parser.epilog = "example:\n  ddetect demo --scenario python_lock --keep demo-out"
    parser.add_argument(
        "--framework",
        choices=sorted(DEFAULTS),
        help="what the job trains with: torch, or tensorflow from an environment of its own (DDETECT_TF_PYTHON)",
    )
    parser.add_argument(
        "--scenario",
        metavar="NAME",
        help=f"what goes wrong: {DEFAULTS['torch']} ({DEFAULTS['tensorflow']} of TensorFlow's), or one of "
        + ", ".join(sorted(_hanging() - set(DEFAULTS.values()))),
    )
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="where evidence and logs go (ddetect-out/demo-TIME)"
    )


def run(args: argparse.Namespace) -> int:
    """Launch, wait for the confirmed verdict, print its report, end the job."""
    scenario = chosen(args.framework, args.scenario)
    require(scenario)
    params = PARAMS[scenario.framework]
    with _kept(args.keep) as folder, _ending_on_sigterm():
        verdict, report = _play(scenario, params, folder)
    sys.stdout.write(report)
    sys.stdout.flush()
    wrong = differences(verdict, scenario, params)
    for line in wrong:
        _say(f"not what was staged: {line}")
    _say(f"the job is ended; its evidence is in {folder}.")
    _say(f"now your own: {YOUR_OWN[scenario.framework]}")
    return 1 if wrong else 0


def chosen(framework: str | None, name: str | None) -> Scenario:
    """The scenario that is meant: by its name, or the usual one of a framework."""
    scenario = SCENARIOS[name] if name in _hanging() else None
    if name is None:
        scenario = SCENARIOS[DEFAULTS[framework or "torch"]]
    if scenario is None or framework not in (None, scenario.framework):
        mine = sorted(one for one in _hanging() if framework in (None, SCENARIOS[one].framework))
        of_it = f" of {framework}" if framework else ""
        raise UsageError(f"there is no scenario {name!r}{of_it}", hint=f"Choose one of: {', '.join(mine)}.")
    return scenario


def differences(verdict: dict[str, Any], scenario: Scenario, params: Params) -> list[str]:
    """Where a verdict is not the truth that the scenario carries."""
    culprits = verdict["culprits"]
    pairs: list[tuple[str, object, object]] = [
        ("status", verdict["status"], scenario.status.value),
        ("cause", verdict["cause"], scenario.cause.value if scenario.cause else None),
        ("culprits", sorted(item["rank"] for item in culprits), list(scenario.culprits(params))),
    ]
    if scenario.function is not None:
        places = {(item["where"] or {}).get("function") for item in culprits}
        pairs.append(("where", places, {scenario.function}))
    return [f"{name} is {said!r} and should be {truth!r}" for name, said, truth in pairs if said != truth]


def _hanging() -> set[str]:
    return {name for name, scenario in SCENARIOS.items() if scenario.cause}


def _play(scenario: Scenario, params: Params, folder: Path) -> tuple[dict[str, Any], str]:
    job = command(scenario, params)
    launch = ["launch", "--out", str(folder / "out"), "--patience", str(PATIENCE_S), *job]
    _say(_story(scenario))
    _say(f"$ ddetect {shlex.join(launch)}")
    log = folder / "job.log"
    with _running([sys.executable, "-m", "ddetect", *launch], log) as launcher:
        return _await_verdict(launcher, folder / "out", log)


def _story(scenario: Scenario) -> str:
    """What is about to happen, in the words of the program itself."""
    words = ast.get_docstring(ast.parse(scenario.path.read_text())) or "A training job is about to get stuck."
    return words.splitlines()[0]


@contextlib.contextmanager
def _running(argv: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher with all its descendants, ended when the block is left, however it is left."""
    with open(log, "wb") as output:
        # A session of its own: ctrl-C reaches us first, and we end the job in order.
        launcher = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield launcher
    finally:
        _end(launcher)


def _end(launcher: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the launcher, which ends its job; SIGKILL to what is left, by pid and start time."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(launcher.pid).children(recursive=True)
    launcher.terminate()
    if not _has_ended(launcher, 5):
        # torchrun waits 30 s for ranks that do not end at SIGTERM: the ranks of a demo have nothing to save.
        _kill(process for process in family if not _is_ours(process))
        if not _has_ended(launcher, 10):
            launcher.kill()
            launcher.wait()
    # A loader worker asleep does not notice that its rank is gone.
    _kill(family)


def _has_ended(launcher: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        launcher.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(processes: Iterable[psutil.Process]) -> None:
    """psutil compares start times first, so that a reused pid is left alone."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _is_ours(process: psutil.Process) -> bool:
    """Agent and coordinator end by themselves after the launcher's word."""
    try:
        return "ddetect" in process.cmdline()[1:4]
    except psutil.Error:
        return False


def _await_verdict(launcher: subprocess.Popen[bytes], out: Path, log: Path) -> tuple[dict[str, Any], str]:
    began, said = time.monotonic(), ""
    with _live_line(launcher.pid) as repaint:
        while time.monotonic() - began < TIMEOUT_S:
            ended = (
                launcher.poll() is not None
            )  # asked first: what the job wrote before it ended is read below
            found = _newest(out)
            if found is not None:
                verdict, report = found
                if verdict["summary"] != said and verdict["stage"] != "confirmed":
                    said = verdict["summary"]
                    repaint("")
                    _say(f"after {time.monotonic() - began:.0f} s, {verdict['stage']}: {said}")
                if verdict["stage"] == "confirmed":
                    repaint("")
                    _say(f"after {time.monotonic() - began:.0f} s, confirmed:\n")
                    return verdict, report
            if ended:
                raise DdetectError(f"the job ended without a confirmed verdict{_tail(log)}", hint=_HINT)
            repaint(None)
            time.sleep(_POLL_S)
    raise DdetectError(f"no confirmed verdict within {TIMEOUT_S} s{_tail(log)}", hint=_HINT)


_HINT = "Run `ddetect doctor`; with --keep DIR the demo leaves its logs there."


def _newest(out: Path) -> tuple[dict[str, Any], str] | None:
    for folder in sorted(out.glob("incident-*"), reverse=True):
        with contextlib.suppress(OSError, ValueError):
            return json.loads((folder / "verdict.json").read_text()), (folder / "report.txt").read_text()
    return None


def _tail(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "; its last words were:\n" + "\n".join(lines) if lines else ""
    return ""


@contextlib.contextmanager
def _live_line(launcher_pid: int) -> Iterator[Any]:
    """The status line a user would see, on the last line of a terminal; nothing elsewhere."""
    terminal = sys.stderr.isatty()
    painted = ""

    def repaint(text: str | None) -> None:
        nonlocal painted
        if not terminal:
            return
        shown = _status_text(launcher_pid) if text is None else text
        if shown == painted:
            return
        painted = shown
        sys.stderr.write(f"\r\x1b[K{shown[: shutil.get_terminal_size().columns - 1]}")
        sys.stderr.flush()

    try:
        yield repaint
    finally:
        repaint("")


def _status_text(launcher_pid: int) -> str:
    for job in read_jobs(os.environ):
        if job.launcher_pid == launcher_pid:
            with contextlib.suppress(OSError):
                return (job.run_dir / rundir.STATUS).read_text().strip()
    return "ddetect: starting"


@contextlib.contextmanager
def _kept(keep: Path | None) -> Iterator[Path]:
    if keep is None:  # as with `launch`; a folder per demo, so that its verdict is the only one there
        keep = Path("ddetect-out") / time.strftime("demo-%m%d-%H%M%S")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {keep}: {error.strerror}", hint="Choose another --keep DIR."
        ) from error
    yield keep


@contextlib.contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    def leave(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    print(f"ddetect demo: {text}" if not text.startswith("$") else text, file=sys.stderr, flush=True)
