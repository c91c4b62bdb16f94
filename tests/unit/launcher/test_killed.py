"""A launcher that is killed with SIGKILL: its job is left as it is, and what is ours is gone within seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ddetect_probe import rundir

from tests.unit.launcher.conftest import Launcher, alive, until

GONE_WITHIN_S = 5.0
REAL = "import sys\nfrom ddetect_launcher.launch import launch\nfrom ddetect_launcher.options import Options\n" \
    "sys.exit(launch(sys.argv[2:], Options(out=sys.argv[1])))"  # fmt: skip
WAIT = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"


def _children(pid: int) -> set[int]:
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def _holder(run: Path, companion: str) -> int:
    try:
        return int(Path(rundir.lock_path(str(run), companion)).read_text() or 0)
    except OSError:
        return 0


def test_job_lives_on_and_all_of_ours_is_gone_within_five_seconds(launcher: Launcher) -> None:
    """Agent, coordinator (the real ones) and witness; they need nobody to tell them."""
    read_end, write_end = os.pipe()
    command = [sys.executable, "-c", REAL, str(launcher.out), sys.executable, "-c", WAIT]
    process: subprocess.Popen[bytes] = launcher.start(command, stdin=read_end)
    assert process.stdout is not None
    job = int(process.stdout.readline())
    until(launcher.run_dirs, "the run directory is made")
    (run,) = launcher.run_dirs()
    until((run / rundir.AGENT_SOCKET).exists, "the agent listens")
    until((run / rundir.COORDINATOR).exists, "the coordinator listens")
    ours = _children(process.pid) - {job}
    assert {_holder(run, "agent"), _holder(run, "coordinator")} < ours
    assert len(ours) == 3  # and the witness

    process.kill()
    process.wait()
    killed_at = time.monotonic()
    until(lambda: not any(map(alive, ours)), "all of ours is gone")
    took_s = time.monotonic() - killed_at
    lives_on = alive(job)
    os.close(write_end)
    os.close(read_end)
    if lives_on:
        os.kill(job, signal.SIGKILL)

    assert lives_on
    assert took_s < GONE_WITHIN_S
    assert launcher.run_dirs() == []
