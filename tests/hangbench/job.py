"""A scenario as its user starts it, for tools that come from outside or bring their own launcher.

Enters: a command line. Leaves: the running `Job`, ended with all that it started when the block is left.
Never here: ddetect's own processes, an opinion.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.hangbench.clock import ProgressClock
from tests.live.harness import adopted_orphans, descendants, kill_all


@dataclass(frozen=True, slots=True)
class Job:
    """A job that runs, the clock on it, and where its words go."""

    process: subprocess.Popen[bytes]
    clock: ProgressClock
    stdout: Path
    stderr: Path
    began: float

    @property
    def ended(self) -> bool:
        """Whether its launcher is gone."""
        return self.process.poll() is not None

    @property
    def words(self) -> str:
        """All that it printed."""
        return self.stdout.read_text(errors="replace") + self.stderr.read_text(errors="replace")

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something to become true, for the job's end, or for the time to be over; whether it is true."""
        deadline = time.monotonic() + timeout_s
        while not until():
            if self.ended or time.monotonic() > deadline:
                return until()
            time.sleep(0.1)
        return True

    def wait_until_still(self, still_s: float, timeout_s: float, attempt: int = 1) -> bool:
        """Wait until the ranks (of that attempt, if the job is started again) have moved and then stood still."""
        return self.wait(
            lambda: (
                self.clock.attempts >= attempt
                and self.clock.still_for() > still_s
                and self.clock.all_but_one_wait()
            ),
            timeout_s,
        )

    def strays(self) -> str:
        """Processes that lost their parents to us while the job itself is not among them: a tool left them behind."""
        left = []
        for child in psutil.Process().children():
            try:
                if child.pid != self.process.pid and child.status() != psutil.STATUS_ZOMBIE:
                    left.append(f"{child.pid} {' '.join(child.cmdline())[:200]}")
            except psutil.Error:
                pass  # it has ended
        return f"left behind: {left}" if left else ""


@contextmanager
def running(command: list[str], folder: Path, env: Mapping[str, str] | None = None) -> Iterator[Job]:
    """Start it in a session of its own; end it and all its children afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / "stdout", folder / "stderr"
    with adopted_orphans(), open(out, "wb") as stdout, open(err, "wb") as stderr:
        spared, clock = descendants(), None
        try:  # from here on: whoever ends the bench may do so while the job is being started
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # never written to and never closed: a debugger prompt waits for it
                stdout=stdout,
                stderr=stderr,
                env={**_environment(), **(env or {})},
                start_new_session=True,
            )
            clock = ProgressClock(process.pid)
            yield Job(process, clock, out, err, time.time())
        finally:
            if clock is not None:
                clock.stop()
            kill_all(spared)


def _environment() -> dict[str, str]:
    scripts = os.path.dirname(sys.executable)
    return {
        **os.environ,
        "PATH": scripts + os.pathsep + os.environ.get("PATH", ""),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3",
        "PYTHONUNBUFFERED": "1",
    }
