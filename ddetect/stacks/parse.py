"""Turn what a stack dumper printed into threads.

Enters: the text of py-spy (--json), pystack or faulthandler. Leaves: `SeenThread`, our Thread with its
numbers. Function names are the bare ones (`run`, not `Thread.run`), so that every dumper and every
Python version say the same about the same frame.
Never here: processes, files, clocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddetect.frameworks.framework import CallNames
from ddetect.model import DEVICE_LIBRARY, Frame, Thread
from ddetect.stacks.calls import DistCall, parse_call

# Of the probe's own thread, which has no name.
_TICK_FILE = "ddetect_probe/beat.py"

DEEPEST = 256
"""Innermost frames kept: a runaway recursion must not become a runaway message."""


@dataclass(frozen=True, slots=True)
class SeenThread:
    """A thread, and its numbers: the kernel's joins it to /proc, Python's to the page; 0 when the dumper is silent."""

    tid: int
    thread: Thread
    call: DistCall | None = None  # where local variables were asked for
    ident: int = 0
    ours: bool = False  # the probe's own thread: never part of what the job does


def parse_pyspy(text: str, pid: int, calls: Sequence[CallNames] = ()) -> tuple[SeenThread, ...]:
    """Read `py-spy dump --json`, with or without --native. Raises ValueError on anything else."""
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise ValueError("py-spy did not print a list of threads")
    try:
        return arrange(_pyspy_thread(row, pid, calls) for row in rows if row.get("pid", pid) == pid)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"py-spy printed a thread we do not understand: {error!r}") from error


def _pyspy_thread(row: dict[str, Any], pid: int, calls: Sequence[CallNames]) -> SeenThread:
    tid = int(row.get("os_thread_id") or 0)
    name = str(row.get("thread_name") or "")
    python: list[Frame] = []
    native: list[str] = []
    for frame in row["frames"]:
        symbol = str(frame["name"])
        # Only a native frame has the library it lives in as its module.
        if frame.get("module") is None:
            python.append(Frame(bare(symbol), str(frame["filename"]), int(frame["line"])))
        elif not symbol.startswith("0x"):
            native.append(symbol)
        elif (library := _DEVICE_LIBRARY.search(str(frame["module"]))) and library[0] not in native[-1:]:
            native.append(library[0])
        # Any other address without a name differs from rank to rank and says nothing.
    return SeenThread(
        tid,
        Thread(
            name=name,
            is_main=tid == pid if tid else name == "MainThread",
            active=bool(row.get("active")),
            owns_gil=bool(row.get("owns_gil")),
            stack=tuple(python),
            native=tuple(native[:DEEPEST]),
        ),
        parse_call(row["frames"], calls),
        int(row.get("thread_id") or 0),
    )


_DEVICE_LIBRARY = re.compile(DEVICE_LIBRARY)
_PYSTACK_THREAD = re.compile(r"Traceback for thread (\d+) \((.*?)\) \[(.*?)\] \(most recent call last\):")
_PYSTACK_FRAME = re.compile(r'\s*\(Python\) File "(.*)", line (\d+), in (.+)$')


def parse_pystack(text: str, pid: int) -> tuple[SeenThread, ...]:
    """Read `pystack remote PID`. Raises ValueError when there is no thread in it."""
    found: list[tuple[int, bool, list[Frame]]] = []
    for line in text.splitlines():
        head = _PYSTACK_THREAD.match(line)
        if head:
            found.append((int(head[1]), "Has the GIL" in head[3], []))
            continue
        frame = _PYSTACK_FRAME.match(line)
        if frame and found:
            found[-1][2].append(Frame(bare(frame[3]), frame[1], int(frame[2])))
    if not found:
        raise ValueError("pystack printed no thread")
    # pystack knows only the kernel's name of a thread, which is the program's: the stack tells ours apart.
    return arrange(
        SeenThread(
            tid,
            Thread(
                name="MainThread" if tid == pid else "",
                is_main=tid == pid,
                active=False,
                owns_gil=gil,
                stack=tuple(reversed(frames)),
            ),
        )
        for tid, gil, frames in found
    )


_FAULT_THREAD = re.compile(
    r"(?:Current thread|Thread) (0x[0-9a-f]+) (?:\[(.*?)\] )?\(most recent call first\):"
)
_FAULT_FRAME = re.compile(r'\s*File "(.*)", line (\d+) in (.+)$')


def parse_faulthandler(text: str) -> tuple[SeenThread, ...]:
    """Read one dump of the interpreter's faulthandler. Raises ValueError when there is no thread in it."""
    found: list[tuple[int, str, list[Frame]]] = []
    for line in text.splitlines():
        head = _FAULT_THREAD.match(line)
        if head:
            found.append((int(head[1], 16), head[2] or "", []))
            continue
        frame = _FAULT_FRAME.match(line)
        if frame and found:
            found[-1][2].append(Frame(bare(frame[3]), frame[1], int(frame[2])))
    if not found:
        raise ValueError("faulthandler wrote no thread")
    # It lists the newest thread first and names none; the main thread is the one threading.py did not start.
    # Past 100 threads it stops before the main one: then there is none to point at.
    mains = [
        number for number, (_, _, frames) in enumerate(found) if frames and not _started_by_threading(frames)
    ]
    main = mains[-1] if mains else -1
    return arrange(
        SeenThread(
            0,
            Thread("MainThread" if n == main else name, n == main, False, False, tuple(frames)),
            ident=ident,
        )
        for n, (ident, name, frames) in enumerate(found)
    )


def _started_by_threading(frames: list[Frame]) -> bool:
    return frames[-1].function == "_bootstrap" and frames[-1].file.endswith("threading.py")


def bare(function: str) -> str:
    """`Thread.run` and `main.<locals>.run` are both `run`: older Pythons and other dumpers say no more."""
    return function.rpartition(".")[2] or function


def arrange(seen: Iterable[SeenThread]) -> tuple[SeenThread, ...]:
    """Main thread first, the rest in an order no dumper decides; empty ones left out, our own marked and last."""
    kept = [
        replace(
            one,
            thread=replace(one.thread, stack=_job_only(one.thread.stack)[:DEEPEST]),
            ours=_is_ours(one.thread),
        )
        for one in seen
        if one.thread.is_main or one.thread.stack
    ]
    return tuple(
        sorted(
            kept,
            key=lambda one: (one.ours, not one.thread.is_main, one.thread.name, _lines(one.thread.stack)),
        )
    )


def _is_ours(thread: Thread) -> bool:
    return not thread.is_main and any(frame.file.endswith(_TICK_FILE) for frame in thread.stack[-4:])


def _lines(stack: tuple[Frame, ...]) -> list[tuple[str, int]]:
    return [(frame.file, frame.line) for frame in stack]


def _job_only(stack: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Leave out our wrappers, and what a forked child inherited below its beginning: fork copies frames.

    A wrapper that is innermost stays: if it is we who are stuck, the stack must say so.
    """
    kept: list[Frame] = []
    for depth, frame in enumerate(stack):
        if depth == 0 or "/ddetect_probe/" not in frame.file:
            kept.append(frame)
        if frame.function == "_bootstrap" and frame.file.endswith("multiprocessing/process.py"):
            break
    return tuple(kept)
