"""Small programs to look at. Each says "ready" on a pipe; each is killed by its pid, whatever the test does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ddetect.host.proc import read_tasks


@contextmanager
def running(code: str, *args: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python program that has printed "ready"."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.send_signal(signal.SIGCONT)
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()


SLEEPS = ("nanosleep", "select", "poll_schedule")  # time.sleep() is a select() up to Python 3.10


def until(true: Callable[[], object], *, within_s: float = 60.0) -> None:
    """Wait for something that must become true; what it was instead is shown."""
    deadline = time.monotonic() + within_s
    while not (seen := true()):
        assert time.monotonic() < deadline, f"it did not become true in {within_s:g} s: {seen!r}"
        time.sleep(0.01)


def fall_asleep(pid: int) -> None:
    """Wait until the main thread sleeps: a program says "ready" a little earlier."""
    until(lambda: (tasks := read_tasks(pid)) and any(name in tasks[0].wchan for name in SLEEPS))
