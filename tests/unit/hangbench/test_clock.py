"""The bench's own clock, over processes that look like ranks: when did the job last move?"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.hangbench import clock
from tests.hangbench.clock import ProgressClock
from tests.unit.stacks.targets import until

TWO_RANKS_THAT_SLEEP = """
import os, subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(300)"]
ranks = [subprocess.Popen(command, env={**os.environ, "RANK": str(rank)}) for rank in range(2)]
sys.stdin.read()
for rank in ranks:
    rank.kill()
    rank.wait()
"""


def test_job_that_never_moved_stands_still_since_its_ranks_sleep(monkeypatch):
    """Ranks that hang before they meet: seconds have a beginning, and somebody asks about them."""
    monkeypatch.setattr(clock, "NEVER_MET_S", 1.0)
    monkeypatch.setattr(clock, "MOVES", 10**9)  # whatever Python's own start looks like
    began = time.time()
    with subprocess.Popen([sys.executable, "-c", TWO_RANKS_THAT_SLEEP], stdin=subprocess.PIPE) as launcher:
        watched = ProgressClock(launcher.pid)
        try:
            until(lambda: watched.still_for() > 1.0)
            moved = watched.last_before(time.time())
        finally:
            watched.stop()
            launcher.communicate()

    assert moved is not None
    assert began <= moved <= time.time() - 1.0
