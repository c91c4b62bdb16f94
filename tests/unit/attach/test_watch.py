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

import pytest

from tests.unit.attach.test_find import NO_RANK
from tests.unit.stacks.targets import running

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


def let_look(watcher: subprocess.Popen[str]) -> None:
    """Long enough for the first beat, which begins to watch for the death."""
    with pytest.raises(subprocess.TimeoutExpired):
        watcher.wait(1.5)


def verdicts(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(out.glob("incident-*/verdict.json"))]


def test_job_that_ends_well_is_no_incident(tmp_path):
    """Exit code 0, nothing on stdout."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher)
        child.stdin.write("done\n")
        child.stdin.flush()
        printed, news = watcher.communicate(timeout=20)

    assert (watcher.returncode, printed, verdicts(tmp_path)) == (0, "", []), news
    assert "the job has ended" in news


def test_job_that_raises_is_named(tmp_path):
    """Nobody saw the exception; the exit code is enough for the cause."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher)
        child.stdin.write("raise\n")
        child.stdin.flush()
        printed, news = watcher.communicate(timeout=20)

    (verdict,) = verdicts(tmp_path)
    assert (watcher.returncode, verdict["status"], verdict["cause"]) == (3, "stopped", "python_exception"), (
        news
    )
    assert "exit code 1" in verdict["summary"]
    assert json.loads(printed)["summary"] == verdict["summary"]


def test_job_that_is_killed_is_named_with_the_signal(tmp_path):
    """The kernel keeps the signal until the parent has waited."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher)
        child.kill()
        _, news = watcher.communicate(timeout=20)

    (verdict,) = verdicts(tmp_path)
    assert (watcher.returncode, verdict["cause"]) == (3, "killed_by_signal"), news
    assert "SIGKILL" in verdict["summary"]


def test_ctrl_c_leaves_the_job_as_it_is(tmp_path):
    """No alarm was open: exit code 0, and the process lives."""
    with running(ENDS, env=NO_RANK) as child, watching(child.pid, tmp_path) as watcher:
        let_look(watcher)
        watcher.send_signal(signal.SIGINT)
        _, news = watcher.communicate(timeout=20)
        alive = child.poll() is None

    assert (watcher.returncode, alive) == (0, True), news
