"""ddetect's own processes die, and two jobs share a host: the jobs do not notice, and detection comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.live.harness import run_scenario

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parents[2]


class Killer(threading.Thread):
    """Kills the named helpers of the launch below us with SIGKILL, one after another, each once it is really there."""

    def __init__(self, *helpers: str, wait_s: float = 60.0) -> None:
        super().__init__(daemon=True)
        self.helpers = helpers
        self.killed: list[int] = []
        self._deadline = time.monotonic() + wait_s

    def run(self) -> None:
        for helper in self.helpers:
            while time.monotonic() < self._deadline:
                found = _helper(helper, not_these=self.killed)
                if found is not None and time.time() - found.create_time() > 3.0:
                    os.kill(found.pid, signal.SIGKILL)
                    self.killed.append(found.pid)
                    break
                time.sleep(0.1)


def _helper(name: str, *, not_these: list[int]) -> psutil.Process | None:
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[1:4] == ["-m", "ddetect", name] and process.pid not in not_these:
                return process
        except psutil.Error:
            pass
    return None


def test_job_ends_well_though_agent_and_coordinator_are_killed():
    """Losing ddetect costs the user nothing but ddetect."""
    killer = Killer("agent", "coordinator")
    killer.start()

    result = run_scenario("healthy", world_size=2, extra=("--steps", "120"), until="end", timeout_s=150)

    killer.join(1)
    assert len(killer.killed) == 2
    assert result.exit_code == 0, result.stderr
    assert not [incident for incident in result.incidents if incident.get("confirmed_at_unix_ns")]


def test_hang_is_found_after_agent_and_coordinator_came_back():
    """A new agent re-reads the pages, a new coordinator is told everything again."""
    killer = Killer("agent", "coordinator")
    killer.start()

    result = run_scenario("data_worker_stuck", rank=1, world_size=2, at=300, until="confirmed", timeout_s=150)

    assert len(killer.killed) == 2
    assert (result.verdict["cause"], result.culprit_ranks) == ("data_loading", (1,)), result.report


_ONE_JOB = """
import json, sys
from tests.live.harness import run_scenario
how = {"world_size": 2, "at": 60, "patience": 8.0, "until": "confirmed", "timeout_s": 150}
result = run_scenario(sys.argv[1], rank=int(sys.argv[2]), **how)
print(json.dumps([result.verdict["cause"], list(result.culprit_ranks), result.verdict["world_size"]]))
"""


def test_two_jobs_on_one_host_do_not_meet():
    """Each coordinator sees its own ranks, and each first alarm names its own culprit."""
    jobs = {"user_sleep": ["user_code", [0], 2], "data_in_process": ["data_loading", [1], 2]}
    running = {
        name: subprocess.Popen(
            [sys.executable, "-c", _ONE_JOB, name, str(truth[1][0])],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for name, truth in jobs.items()
    }

    said = {name: json.loads(process.communicate()[0] or "null") for name, process in running.items()}

    assert said == jobs
