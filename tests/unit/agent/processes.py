"""Processes that look like ranks: a page, a role, and nothing of torch."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.stacks.targets import running

RANK_LIKE = """
import json, sys, threading, time
from ddetect_probe import page
folder, role, rank, index, restart, how = sys.argv[1], *map(int, sys.argv[2:6]), sys.argv[6]
writer = page.PageWriter(folder, role)
slots = writer.slots
slots[page.S_RANK], slots[page.S_WORLD], slots[page.S_WORKER_INDEX], slots[page.S_RESTART] = rank, 4, index, restart
now = time.monotonic_ns()
page.pack_pair(writer.raw, (page.lane_at(0) + page.L_STEPS) * 8, 5, now)
slots[page.S_TICK_NS] = now
slots[page.S_PG_STATE] = page.PG_READY
writer.lane(0, page.DATA)
writer.text("groups", '[[0, "0", "default_pg", "gloo", "0-3"]]')
writer.row(page.P2P_AT, (page.RECV, 2, 9, 0, now, 1, 0))
if how == "lanes 1 and 3":
    slots[page.lane_at(0) + page.L_PHASE] = 0
    for lane in (1, 3):
        writer.lane(lane, page.COLLECTIVE)
        page.pack_pair(writer.raw, (page.lane_at(lane) + page.L_STEPS) * 8, 10 * lane, now)
if how == "blind":
    slots[page.S_HOOKS_OFF], slots[page.S_GROUPS_DROPPED] = 2, 1
    writer.text("hooks_off", "all_reduce optimizer")
if how == "fetching":
    slots[page.S_FETCH], slots[page.S_FETCH_NS] = 42, now
if how == "thread died":
    told = {"type": "OSError", "message": "shard 17", "function": "read", "file": "/a.py", "line": 7}
    writer.text("exception", json.dumps(told))
print("ready", flush=True)
def wait_here():
    sys.stdin.readline()
if how == "in a thread":
    thread = threading.Thread(target=wait_here)
    thread.start()
    page.pack_pair(writer.raw, (page.lane_at(0) + page.L_IDENT) * 8, thread.ident, thread.native_id)
    thread.join()
else:
    wait_here()
if how == "raise":
    told = {"type": "ValueError", "message": "bad shard", "function": "read", "file": "/a.py", "line": 7}
    writer.text("exception", json.dumps(told))
    slots[page.S_EXIT], slots[page.S_EXIT_NS] = page.RAISED, time.monotonic_ns()
if how == "exit":
    slots[page.S_EXIT], slots[page.S_EXIT_NS] = page.EXITED, time.monotonic_ns()
"""


def make_run_dir(tmp_path: Path) -> str:
    """A run directory as the launcher makes it."""
    for name in ("pages", "sock", "fault"):
        (tmp_path / name).mkdir()
    return str(tmp_path)


@contextmanager
def rank_like(
    run_dir: str, rank: int, *, role: int = 1, index: int = -1, restart: int = 0, how: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A process with a page; it ends as `how` says once it reads a line."""
    pages = os.path.join(run_dir, "pages")
    with running(RANK_LIKE, pages, str(role), str(rank), str(index), str(restart), how) as child:
        yield child


def finish(child: subprocess.Popen[str]) -> None:
    """Let it end by itself."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()
    child.wait(timeout=60)


def now_ns() -> int:
    """The clock that pages use."""
    return time.monotonic_ns()
