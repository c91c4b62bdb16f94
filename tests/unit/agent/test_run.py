from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ddetect_probe.rundir import job_is_over

from ddetect.agent.run import read_job, read_target
from ddetect.cli import agent as command
from tests.unit.agent.processes import make_run_dir
from tests.unit.stacks.targets import until


def _start(run_dir: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "ddetect", "agent", "--run-dir", run_dir])


def _finish(agent: subprocess.Popen[bytes]) -> None:
    agent.kill()
    agent.wait()


def test_job_is_over_when_no_launcher_holds_the_lock(tmp_path: Path) -> None:
    """While a launcher lives its shared lock keeps ours out; when it is gone, killed or not, we get it."""
    run_dir = make_run_dir(tmp_path)
    path = os.path.join(run_dir, "members.lock")
    assert not job_is_over(run_dir)  # no lock file: a sidecar's directory
    with open(path, "w") as launcher:
        fcntl.flock(launcher, fcntl.LOCK_SH)
        held = job_is_over(run_dir)
    assert (held, job_is_over(run_dir)) == (False, True)
    shutil.rmtree(run_dir)
    assert job_is_over(run_dir)


def test_agent_never_outlives_the_job(tmp_path: Path) -> None:
    """The launcher's lock goes with the launcher, and the agent goes with the lock."""
    run_dir = make_run_dir(tmp_path)
    with open(os.path.join(run_dir, "members.lock"), "w") as launcher:
        fcntl.flock(launcher, fcntl.LOCK_SH)
        agent = _start(run_dir)
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                agent.wait(1.5)
            fcntl.flock(launcher, fcntl.LOCK_UN)
            assert agent.wait(60) == 0
        finally:
            _finish(agent)


def test_agent_leaves_on_sigterm(tmp_path: Path) -> None:
    """Without a launcher (in a sidecar) the signal is the end."""
    agent = _start(make_run_dir(tmp_path))
    try:
        # It catches the signal once it runs; before that the signal would end it too, with another code.
        until(lambda: int(_status(agent.pid).get("SigCgt", "0"), 16) >> (signal.SIGTERM - 1) & 1)
        agent.terminate()
        assert agent.wait(60) == 0
    finally:
        _finish(agent)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_job_and_coordinator_are_read_from_the_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the launcher and the coordinator wrote is found; what is not there yet is nothing."""
    monkeypatch.delenv("DDETECT_JOB", raising=False)
    assert (read_target(str(tmp_path)), read_job(str(tmp_path))) == (None, "")
    (tmp_path / "coordinator").write_text("unix:/x/c.sock\n")
    (tmp_path / "job.json").write_text('{"job": "abc"}')
    assert (read_target(str(tmp_path)), read_job(str(tmp_path))) == ("unix:/x/c.sock", "abc")


def test_agent_without_a_run_directory_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A usage error with its remedy, not a traceback."""
    import argparse

    from ddetect.errors import HostError, UsageError

    monkeypatch.delenv("DDETECT_RUN_DIR", raising=False)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(UsageError, match="run directory"):
        command.run(parser.parse_args([]))
    with pytest.raises(HostError, match="no run directory"):
        command.run(parser.parse_args(["--run-dir", str(tmp_path / "none")]))
