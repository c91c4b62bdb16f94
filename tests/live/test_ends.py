"""What is on disk after the end, and what is left: one stuck job per way to end it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddetect.scenarios.catalogue import Params
from tests.hangbench.sightings import answer_of
from tests.live.ends import CTRL_C, SIGINT, SIGKILL, SIGTERM, STOP, End
from tests.live.harness import Result, run_scenario, watch_job

STUCK_WORKER = Path(__file__).parent / "programs" / "stuck_worker.py"
PIPE_ENDS_S = 5.0
SIGNALLED = (SIGTERM, SIGINT, CTRL_C)


def name_of(end: End) -> str:
    return end.name.replace(" ", "_")


def only_incident(result: Result) -> dict[str, Any]:
    """Nothing else may lie beside it."""
    assert len(result.folders) == len(result.incidents) == 1, [one["summary"] for one in result.incidents]
    return result.incidents[0]


@pytest.mark.parametrize("end", [STOP, *SIGNALLED, SIGKILL], ids=name_of)
def test_stopped_rank_stays_the_cause_whoever_ends_the_job(end: End) -> None:
    """A rank that SIGSTOP holds does not hear the end: it dies by another signal than its peers, which is no cause."""
    result = run_scenario("sigstop", rank=1, world_size=3, at=30, step_ms=30, end=end)

    assert answer_of(result.verdict) == ("hang", "process_stopped", (1,)), result.report
    final = only_incident(result)
    assert answer_of(final) == ("hang", "process_stopped", (1,)), final["summary"]
    assert final["stage"] == "closed"


@pytest.mark.parametrize("end", SIGNALLED, ids=name_of)
def test_waiters_that_run_again_at_the_end_are_no_progress(end: End) -> None:
    """SIGINT wakes who waits for a lock: the job is ending, it has not resumed."""
    result = run_scenario("python_lock", rank=0, world_size=2, at=30, step_ms=30, end=end)

    final = only_incident(result)
    assert answer_of(final) == ("hang", "python_lock", (0,)), final["summary"]
    assert "resumed" not in str(final["closed"]), final["closed"]


def test_job_is_left_as_it_is_when_its_launcher_is_killed() -> None:
    """Nobody asked for the end of the job: whoever killed the launcher is told what may still run."""
    result = run_scenario("user_sleep", rank=1, world_size=2, at=30, step_ms=30, end=SIGKILL)

    final = only_incident(result)
    (culprit,) = final["culprits"]
    assert answer_of(final) == ("hang", "user_code", (1,)), final["summary"]
    assert culprit["pid"] in result.outlived
    assert len(result.outlived) > 2, "torchrun and both ranks"
    reason = final["closed"]["reason"]
    assert "launcher was killed" in reason
    assert str(culprit["pid"]) in reason


@contextmanager
def tail(into: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`| tail`: it ends when the last writer of the pipe has."""
    with open(into, "wb") as shown:
        reader = subprocess.Popen(["tail"], stdin=subprocess.PIPE, stdout=shown)
    try:
        yield reader
    finally:
        reader.kill()
        reader.wait()


@pytest.mark.parametrize("end", [STOP, SIGTERM, SIGINT, SIGKILL], ids=name_of)
def test_stuck_loader_worker_behind_a_pipe(end: End, tmp_path: Path) -> None:
    """`ddetect launch python train.py | tail`: what is on disk is right, and a job that ddetect stops is over.

    After a signal the program's own worker may be left, as it would be without ddetect; nothing of ours is.
    """
    with tail(tmp_path / "shown") as reader:
        assert reader.stdin is not None
        result = watch_job(
            [sys.executable, str(STUCK_WORKER)],
            Params(rank=0, world_size=1),
            patience=6.0,
            until="confirmed",
            timeout_s=120.0,
            cause="data_loading",
            end=end,
            stdout=reader.stdin,
            on_start=lambda _: reader.stdin.close(),  # the launcher's is the only one now
        )
        pipe_ended = wait_for(reader, PIPE_ENDS_S)

    assert result.problem == "", result.problem
    final = only_incident(result)
    assert answer_of(final) == ("hang", "data_loading", (0,)), final["summary"]
    assert [one for one in result.left if str(STUCK_WORKER) not in one] == []
    if end is STOP:
        assert (result.left, pipe_ended) == ((), True)
        assert "step" in (tmp_path / "shown").read_text()


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
