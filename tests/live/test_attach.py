"""`ddetect attach` to jobs that torchrun started alone: the truth without a probe, no alarm about a healthy one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddetect.scenarios.catalogue import SCENARIOS, Params
from tests.live.alone import family, running_alone

pytestmark = [pytest.mark.live, pytest.mark.timeout(360)]

PARAMS = Params(rank=1, world_size=3, at=20, step_ms=30)
TIMEOUT_S = 150.0


@contextmanager
def attached(pid: int, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`ddetect attach`, ended with the block."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", "ddetect", "attach", "--pid", str(pid), "--out", str(out), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield watcher
    finally:
        watcher.kill()
        watcher.communicate()


def wait_for_ranks(pid: int, count: int) -> None:
    deadline = time.monotonic() + 90
    while len(seen := family(pid)) <= count:
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


def confirmed(out: Path) -> list[dict[str, Any]]:
    told = [json.loads(path.read_text()) for path in sorted(out.glob("incident-*/verdict.json"))]
    return [verdict for verdict in told if verdict.get("confirmed_at_unix_ns")]


def until_alarm(watcher: subprocess.Popen[str], out: Path) -> tuple[str, str]:
    """Wait for the alarm and press ctrl-C: the report, and what was said before it."""
    deadline = time.monotonic() + TIMEOUT_S
    while not confirmed(out) and watcher.poll() is None and time.monotonic() < deadline:
        time.sleep(0.3)
    watcher.send_signal(signal.SIGINT)
    report, news = watcher.communicate(timeout=60)
    return report, news


@pytest.mark.parametrize("name", ["data_worker_stuck", "user_sleep", "sigstop"])
def test_job_started_alone_gets_the_verdict_that_is_its_truth(name: str, tmp_path: Path) -> None:
    """Attached to while it still trains; the alarm names cause, rank and line, and ctrl-C leaves the job alive."""
    scenario = SCENARIOS[name]
    with running_alone(scenario, PARAMS) as job:
        wait_for_ranks(job.pid, PARAMS.world_size)
        with attached(job.pid, tmp_path, "--patience", "6") as watcher:
            report, news = until_alarm(watcher, tmp_path)
            alive = job.poll() is None

    (verdict,) = confirmed(tmp_path) or pytest.fail(report + news)
    ranks = [culprit["rank"] for culprit in verdict["culprits"]]
    assert (verdict["cause"], ranks) == (scenario.cause.value if scenario.cause else None, [1]), report + news
    assert verdict["culprits"][0]["where"]["function"] == scenario.function
    assert (watcher.returncode, alive) == (3, True), news
    assert verdict["summary"] in report


def test_healthy_job_is_watched_to_its_end_without_an_alarm(tmp_path: Path) -> None:
    """Slow evaluations, a slow checkpoint, loader workers: suspicions at most."""
    params = Params(rank=1, world_size=2, at=0, step_ms=50, extra=("--steps", "80"))
    with running_alone(SCENARIOS["healthy"], params) as job:
        wait_for_ranks(job.pid, params.world_size)
        with attached(job.pid, tmp_path, "--patience", "20") as watcher:
            report, news = watcher.communicate(timeout=TIMEOUT_S)

    assert (watcher.returncode, report) == (0, ""), report + news
    assert "the job has ended" in news
    assert not confirmed(tmp_path)
