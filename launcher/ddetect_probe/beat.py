"""The tick: a thread that says twice a second that Python still runs here.

Enters: the mailbox of the page. Leaves: the tick, a fresh list of groups, letters handed to whoever asked for them,
and pages of finished children removed. Never here: work that could take long; a tick must be cheap and regular.
The thread is started below `threading`, which does not know it: a job that joins all threads it finds would wait for
it without end.
"""

from __future__ import annotations

import _thread
import os
import time
from typing import Callable, Dict, List, Tuple

from ddetect_probe import page, rundir, state

PERIOD_S = 0.5
SWEEP_EVERY = 60  # ticks
KEEP_EXITED_S = 30.0  # the agent has read it long before
KEEP_VANISHED_S = 600.0

each_tick: List[Callable[[], None]] = []
on_mail: List[Callable[[str], None]] = []
_ticking = False
_gone_since: Dict[str, float] = {}


def start() -> None:
    """Start ticking, once per process."""
    global _ticking
    if _ticking or state.writer is None:
        return
    try:
        state.without_signals(lambda: _thread.start_new_thread(_run, ()))
        _ticking = True
    except RuntimeError:  # no room, or the interpreter is going down: the page lives without a tick
        pass


def forget() -> None:
    """In a forked child the thread is not there any more; a child that becomes a rank starts its own."""
    global _ticking
    _ticking = False
    _gone_since.clear()


def _run() -> None:
    try:
        _tick()
    except BaseException:
        pass  # the interpreter goes down around us; whatever left here would be printed


def _tick() -> None:
    ticks = 0
    mail = ""
    while True:
        slots = state.slots
        ticks += 1
        slots[page.S_TICKS] = ticks
        slots[page.S_TICK_NS] = time.monotonic_ns()
        for callback in list(each_tick):
            try:
                callback()
            except Exception:
                each_tick.remove(callback)
                state.broken(getattr(callback, "__name__", "tick"))
        if on_mail and state.writer is not None:
            letter = state.writer.read_text("mailbox")
            if letter and letter != mail:
                mail = letter
                _deliver(letter)
        if ticks % SWEEP_EVERY == 0:
            sweep(time.monotonic())
        time.sleep(PERIOD_S)


def _deliver(letter: str) -> None:
    for receive in list(on_mail):
        try:
            receive(letter)
        except Exception:
            on_mail.remove(receive)
            state.broken("mailbox")


def sweep(now: float) -> None:
    """Remove pages of this rank's children, and theirs, that ended: loaders are made anew each epoch."""
    folder = os.path.join(state.run_dir, rundir.PAGES)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(page.SUFFIX)]
    except OSError:
        return
    for name in set(_gone_since).difference(names):
        del _gone_since[name]
    for name in names:
        pid, _, ticks = name[: -len(page.SUFFIX)].partition(".")
        running = page.start_ticks(int(pid)) if pid.isdigit() else 0
        if not pid.isdigit() or str(running) == ticks:
            continue
        path = os.path.join(folder, name)
        try:
            seen = page.Page(path)
            header = seen.header()
            seen.close()
        except (OSError, ValueError):
            continue
        if header[page.S_ROLE] not in _SWEPT or not _descends(header):
            continue
        keep = KEEP_EXITED_S if header[page.S_EXIT] == page.EXITED else KEEP_VANISHED_S
        if now - _gone_since.setdefault(name, now) >= keep:
            leftovers = [path]
            if not running:  # else the number is another process's by now, and so is the file
                leftovers.append(rundir.fault_path(state.run_dir, int(pid)))
            for leftover in leftovers:
                try:
                    os.unlink(leftover)
                except OSError:
                    pass


def _descends(header: Tuple[int, ...]) -> bool:
    """Whether a child's page is of our rank: every child has its rank's number, a grandchild not our pid."""
    rank = state.slots[page.S_RANK]
    return header[page.S_PARENT] == os.getpid() or (rank >= 0 and header[page.S_RANK] == rank)


_SWEPT = (page.ROLE_LOADER_WORKER, page.ROLE_CHILD)
