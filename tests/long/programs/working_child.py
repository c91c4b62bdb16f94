"""Somebody else's program: for every line it works so many seconds (or `wait`s, or `spin`s for ever) and answers."""

import sys
import threading
import time


def work(seconds: float, share: float) -> None:
    """So long, of which a share on a core."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        busy = time.monotonic() + 0.2 * share
        while time.monotonic() < busy:
            pass
        time.sleep(0.2 * (1 - share))


for line in sys.argv[1:] or sys.stdin:
    if line.strip() == "wait":
        threading.Event().wait()
    work(1e9 if line.strip() == "spin" else float(line), 0.04)
    print("done", flush=True)
