"""Watching from outside until the job ends: how it ended comes from the kernel, and decides the exit code."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.attach.test_find import NO_RANK
from tests.unit.stacks.targets import running, until

ENDS = """
import sys
print("ready", flush=True)
def train():
    return sys.stdin.readline()
word = train().strip()
if word == "raise":
    raise ValueError("bad shard")
"""


@contextlib.contextmanager
def watching(pid: int, out: Path) -> Iterator[subprocess.Popen[str]]:
    """`ddetect attach` that has found its process."""
    command = [sys.executable, "-m", "ddetect", "attach", "--pid", str(pid), "--out", str(out), "--json"]
    watcher = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert watcher.stderr is not None
        assert "watching rank 0" in watcher.stderr.readline()
        yield watcher
    finally:
        watcher.kill()
        watcher.wait()
        for pipe in (watcher.stdout, watcher.stderr):
            if pipe is not None:
                pipe.close()


def let_look(watcher: subprocess.Popen[str], child: subprocess.Popen[str]) -> None:
    """Wait for the first beat, which begins to watch for the death: the watcher then holds a pidfd of the child."""

    def held() -> set[str]:
        assert watcher.poll() is None, watcher.communicate()
        return {_pid_of(path) for path in Path(f"/proc/{watcher.pid}/fdinfo").iterdir()}

    until(lambda: str(child.pid) in held())


def _pid_of(fdinfo: Path) -> str:
    """The process that a pidfd stands for; empty for any other descriptor."""
    try:
        words = [line.split() for line in fdinfo.read_text().splitlines() if line.startswith("Pid:")]
    except OSError:
        return ""  # closed meanwhile
    return words[0][1] if words else ""


def verdicts(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(out.glob("incident-*/verdict.json"))]


def test_job_that_ends_well_is_no_incident(tmp_path):
    """Exit code 0, nothing on stdout."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher, child)
        child.stdin.write("done\n")
        child.stdin.flush()
        printed, news = watcher.communicate(timeout=60)

    assert (watcher.returncode, printed, verdicts(tmp_path)) == (0, "", []), news
    assert "the job has ended" in news


def test_job_that_raises_is_named(tmp_path):
    """Nobody saw the exception; the exit code is enough for the cause."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher, child)
        child.stdin.write("raise\n")
        child.stdin.flush()
        printed, news = watcher.communicate(timeout=60)

    (verdict,) = verdicts(tmp_path)
    assert (watcher.returncode, verdict["status"], verdict["cause"]) == (3, "stopped", "python_exception"), (
        news
    )
    assert "exit code 1" in verdict["summary"]
    assert json.loads(printed)["summary"] == verdict["summary"]


def test_job_that_is_killed_is_named_with_the_signal(tmp_path):
    """The kernel keeps the signal until the parent has waited."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher, child)
        child.kill()
        _, news = watcher.communicate(timeout=60)

    (verdict,) = verdicts(tmp_path)
    assert (watcher.returncode, verdict["cause"]) == (3, "killed_by_signal"), news
    assert "SIGKILL" in verdict["summary"]


def test_ctrl_c_leaves_the_job_as_it_is(tmp_path):
    """No alarm was open: exit code 0, and the process lives."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher, child)
        watcher.send_signal(signal.SIGINT)
        _, news = watcher.communicate(timeout=60)
        alive = child.poll() is None

    assert (watcher.returncode, alive) == (0, True), news
