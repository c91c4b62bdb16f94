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
from functools import cache

from ddetect.stacks.failure import DumpFailed, FailureKind, explain


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
