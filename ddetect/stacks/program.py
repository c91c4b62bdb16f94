"""Run a dumper as a program, under a timeout.

Enters: a command line. Leaves: what it printed on stdout; DumpFailed for everything else. A dumper that is
killed lets go of its target by itself (the kernel detaches a tracer that dies).
Never here: knowledge of what any dumper prints.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from typing import IO

from ddetect.stacks.failure import DumpFailed, FailureKind, explain

_LOOK_EVERY_S = 0.02
_MOST_PRINTED = 16 << 20
_URGENT = -10


@dataclass(frozen=True, slots=True)
class Ran:
    """What a dumper printed, or why nothing; and how long its target stood still, as the kernel showed it."""

    printed: str = ""
    paused_s: float = 0.0
    failed: DumpFailed | None = None


@cache
def find_program(name: str) -> str | None:
    """The program that came with our own environment, else the one on PATH."""
    for folder in (os.path.dirname(sys.executable), sysconfig.get_path("scripts")):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name)


def run_dumper(dumper: str, pid: int, command: list[str], timeout_s: float) -> str:
    """Run it and return its stdout. Raises DumpFailed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.05, timeout_s),
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DumpFailed(
            FailureKind.BUSY, f"{dumper} took more than {timeout_s:.1f} s on pid {pid}"
        ) from None
    except OSError as error:
        raise DumpFailed(
            FailureKind.BROKEN, f"{dumper} could not be started: {error.strerror or error}"
        ) from error
    if done.returncode:
        raise explain(dumper, pid, done.stderr or done.stdout)
    return done.stdout


def run_pausing(dumper: str, pid: int, command: list[str], *, pause_s: float, timeout_s: float) -> Ran:
    """Run a dumper that pauses its target for long, and end it when the target was paused for `pause_s`.

    Wall time is no measure of that: most of it may pass before the target is stopped.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            reason = f"{dumper} could not be started: {error.strerror or error}"
            return Ran(failed=DumpFailed(FailureKind.BROKEN, reason))
        _hurry(process.pid)
        began = last = time.monotonic()
        paused_s, reason = 0.0, ""
        try:
            while process.poll() is None:
                time.sleep(_LOOK_EVERY_S)
                now = time.monotonic()
                if _is_traced(pid):
                    paused_s += now - last
                last = now
                if paused_s >= pause_s:
                    reason = f"{dumper} paused pid {pid} for {paused_s:.1f} s and was ended"
                elif now - began >= timeout_s:
                    reason = f"{dumper} took more than {timeout_s:.1f} s on pid {pid}"
                if reason:
                    return Ran("", paused_s, DumpFailed(FailureKind.BUSY, reason))
        finally:
            process.kill()  # does nothing to one that has ended
            process.wait()
        printed, complaint = _text(out), _text(err)
    failed = explain(dumper, pid, complaint or printed) if process.returncode else None
    return Ran(printed, paused_s, failed)


def _hurry(pid: int) -> None:
    """Let it pass by whatever else is busy, where we may: its target stands still for as long as it takes."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, _URGENT)
    except OSError:
        pass  # only root may


def _is_traced(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] == b"t"
    except OSError:
        return False


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_PRINTED).decode("utf-8", "replace")
