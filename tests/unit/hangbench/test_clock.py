"""The bench's own clock, over processes that look like ranks: when did the job last move?"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.hangbench import clock
from tests.hangbench.clock import ProgressClock
from tests.unit.stacks.targets import until

LAUNCHER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "RANK": str(rank)})
    for rank, program in enumerate(sys.argv[1:])
]
sys.stdin.read()
for rank in ranks:
    rank.kill()
    rank.wait()
"""
SLEEPS = "import time; time.sleep(300)"
POLLS = "import time\nwhile True: time.sleep(0.01)"
WORKS_IN_A_THREAD = """
import ctypes, sys, threading, time
WORK_S, NAME = 4.0, {name!r}
def work():
    if NAME:
        ctypes.CDLL(None).prctl(15, NAME.encode())
    until = time.monotonic() + WORK_S
    while time.monotonic() < until:
        time.sleep({every_s})
thread = threading.Thread(target=work)
thread.start()
thread.join()
time.sleep(300)
"""


def last_move(*ranks: str, still_s: float) -> float | None:
    """When a job of these programs last moved, once it has stood still for so long."""
    command = [sys.executable, "-c", LAUNCHER, *ranks]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as launcher:
        watched = ProgressClock(launcher.pid)
        try:
            until(lambda: watched.still_for() > still_s)
            return watched.last_before(time.time())
        finally:
            watched.stop()
            launcher.communicate()


def test_job_that_never_moved_stands_still_since_its_ranks_sleep(monkeypatch):
    """Ranks that hang before they meet: seconds have a beginning, and somebody asks about them."""
    monkeypatch.setattr(clock, "NEVER_MET_S", 1.0)
    monkeypatch.setattr(clock, "MOVES", 10**9)  # whatever Python's own start looks like
    began = time.time()

    moved = last_move(SLEEPS, SLEEPS, still_s=1.0)

    assert moved is not None
    assert began <= moved <= time.time() - 1.0


def test_only_rank_of_a_job_that_polls_does_not_move_it(monkeypatch):
    """The others were never started: it tries again and again to reach them, which is no progress."""
    monkeypatch.setattr(clock, "NEVER_MET_S", 1.0)

    assert last_move(POLLS, still_s=3.0) is not None


def test_job_whose_ranks_work_in_another_thread_moves():
    """The main threads wait in join(): the job stands still when the threads that they wait for do."""
    began = time.time()

    moved = last_move(*[WORKS_IN_A_THREAD.format(name="", every_s=0.01)] * 2, still_s=2.0)

    assert moved is not None
    assert moved - began > 3.5


@pytest.mark.parametrize(("name", "every_s"), [("gloo_tcp_loop", 0.01), ("", 0.09)])
def test_thread_of_a_library_does_not_move_a_job(monkeypatch, name, every_s):
    """gloo's loop wakes a hundred times a second, torch's server ten times, whatever their rank does."""
    monkeypatch.setattr(clock, "NEVER_MET_S", 1.0)
    began = time.time()

    moved = last_move(*[WORKS_IN_A_THREAD.format(name=name, every_s=every_s)] * 2, still_s=1.5)

    assert moved is not None
    assert moved - began < 3.0


@pytest.mark.parametrize(
    ("task", "cluster", "rank"),
    [
        ({"type": "chief", "index": 0}, {"chief": ["a"], "worker": ["b", "c"]}, 0),
        ({"type": "worker", "index": 1}, {"chief": ["a"], "worker": ["b", "c"]}, 2),
        ({"type": "worker", "index": 1}, {"worker": ["b", "c"]}, 1),
        ({"type": "evaluator", "index": 0}, {"worker": ["b", "c"]}, None),
    ],
)
def test_a_task_of_tensorflow_is_a_rank(task, cluster, rank):
    """The chief comes first; an evaluator takes no part."""
    assert clock.rank_of_task(json.dumps({"task": task, "cluster": cluster}).encode()) == rank


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"task": 3}'])
def test_a_configuration_that_nobody_understands_is_no_rank(text):
    """Scripts write what they like into it."""
    assert clock.rank_of_task(text) is None


def test_a_job_of_one_process_moves_by_itself(monkeypatch: pytest.MonkeyPatch):
    """Nobody has a rank there: who holds TensorFlow's code is the job, and there is no other to move with."""
    monkeypatch.setattr(clock, "TENSORFLOW_CODE", b"[stack]")  # every process has that
    job = subprocess.Popen([sys.executable, "-c", POLLS])
    watching = ProgressClock(job.pid)
    try:
        until(lambda: watching.last_progress is not None)
        assert list(watching.ranks) == [job.pid]
    finally:
        watching.stop()
        job.kill()
        job.wait()
