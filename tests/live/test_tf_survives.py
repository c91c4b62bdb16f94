"""A stack dump can kill a TensorFlow job: whoever is paused for some seconds is declared dead by TensorFlow itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddetect.agent.members import JobProcess
from ddetect.agent.sample import Sampler
from ddetect.host.proc import read_stat
from ddetect.messages import TakeEvidence
from ddetect.model import Role
from ddetect.stacks.budget import MOST_S, WINDOW_S
from tests.live.tf_workers import hung_workers, pauses_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]
WATCHED_S = 60.0


class NoCensus:
    """Knows only where the run directory is."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = str(run_dir)


@contextmanager
def busy_machine() -> Iterator[None]:
    """Two programs per core that never rest."""
    with ExitStack() as ended:
        for _ in range(2 * (os.cpu_count() or 1)):
            burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            ended.callback(burner.wait)
            ended.callback(burner.kill)
        yield


def most_within(pauses: list[tuple[float, float]], window_s: float) -> float:
    """The most that a process stood still in any span of this length."""
    return max(
        (sum(took for at, took in pauses if end - window_s < at <= end) for end, _ in pauses), default=0.0
    )


def test_hung_workers_survive_full_sampling_on_a_busy_machine(tmp_path: Path):
    """Looks without a rest, native stacks asked for in each of them: after a minute every worker lives.

    TensorFlow would forgive more than that, once in a while: so they also tell how long they stood still.
    """
    census: Any = NoCensus(tmp_path)
    with hung_workers() as workers, busy_machine():
        sampler = Sampler(census, (), framework="tensorflow")
        ranks = []
        for rank, worker in enumerate(workers):
            stat = read_stat(worker.pid)
            assert stat is not None
            ranks.append(JobProcess(worker.pid, stat.start_ticks, Role.RANK, rank, world_size=len(workers)))
        order = TakeEvidence(1, tuple(worker.pid for worker in workers))
        read, until = [], time.monotonic() + WATCHED_S
        while time.monotonic() < until and all(worker.poll() is None for worker in workers):
            sample = sampler.take(order, ranks, []).look.sample
            read.append(sum(not sample.sightings[number].unread for number in sample.sighting))
        sampler.close()
        lived = [worker.poll() is None for worker in workers]
        stood_s = max(most_within(pauses_of(worker), WINDOW_S) for worker in workers)

    assert lived == [True] * len(workers), f"after {len(read)} looks"
    assert stood_s < MOST_S
    assert sum(read) > 0.9 * len(workers) * len(read), "they lived because hardly anybody was looked at"
