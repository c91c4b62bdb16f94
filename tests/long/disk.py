"""A folder that is slow: with a pipe that somebody empties at DISK_RATE, and one that nobody ever does.

Enters: a folder. Leaves: `slow` and `dead` in it, and plain files for who wants to write those. Never here: a mount,
rights that a user does not have, a thread that outlives `with`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_RATE = 40_000  # bytes a second
SLICE_S = 0.1


@contextmanager
def slow_disk(folder: Path) -> Iterator[Path]:
    """The folder, while somebody empties its pipe."""
    folder.mkdir(parents=True, exist_ok=True)
    over = threading.Event()
    opened = []
    for name in ("slow", "dead"):
        os.mkfifo(folder / name)
        # For writing too: so nobody waits to open it, and it does not end when a writer leaves.
        opened.append(os.open(folder / name, os.O_RDWR | os.O_NONBLOCK))
    emptying = threading.Thread(target=_empty, args=(opened[0], over), daemon=True)
    emptying.start()
    try:
        yield folder
    finally:
        over.set()
        emptying.join()
        for one in opened:
            os.close(one)


def _empty(pipe: int, over: threading.Event) -> None:
    last = time.monotonic()
    while not over.wait(SLICE_S):
        now = time.monotonic()
        try:
            os.read(pipe, int(DISK_RATE * (now - last)))
        except BlockingIOError:
            pass  # it is empty
        last = now
