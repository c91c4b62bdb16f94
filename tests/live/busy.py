"""Other work on the machine: one program per core that never rests, at normal priority.

Enters: nothing. Leaves: nothing when the block is left, nor when whoever opened it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_SPIN = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # go with who started this
if os.getppid() == int(sys.argv[1]):
    while True:
        pass
"""


@contextmanager
def busy_cores(per_core: int = 1) -> Iterator[list[int]]:
    """Every core has something else to do; the pids of who does it."""
    with ExitStack() as ended:
        pids = []
        for _ in range(per_core * (os.cpu_count() or 1)):
            spinning = subprocess.Popen([sys.executable, "-c", _SPIN, str(os.getpid())])
            ended.callback(spinning.wait)
            ended.callback(spinning.kill)
            pids.append(spinning.pid)
        yield pids
