"""Join what the dumper saw with what the kernel and the page say about the same threads.

Enters: a Dump, tasks, who a page says that each thread is. Leaves: `Seen`, a sighting without any number in it, and
beside it the kernel's numbers of its threads. Never here: reading a process, but for why the kernel refuses that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddetect.host.proc import Task
from ddetect.host.ptrace import why_not
from ddetect.model import Sighting, Thread
from ddetect.stacks.dump import Dump
from ddetect.stacks.lanes import CalledByStep, OfLane, lane_of, phase_of

_ANONYMOUS = re.compile(r"^(pipe:|socket:)\[\d+\]$")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process at one instant; `tids` are the kernel's numbers of the sighting's threads, 0 where nobody told."""

    sighting: Sighting
    tids: tuple[int, ...] = ()

    @property
    def places(self) -> dict[int, int]:
        """Where each thread stands in the sighting."""
        return {tid: place for place, tid in enumerate(self.tids) if tid}

    @property
    def leading(self) -> frozenset[int]:
        """The places of the threads that are judged: the main one, and those of lanes."""
        threads = enumerate(self.sighting.threads)
        return frozenset(place for place, thread in threads if thread.is_main or thread.lane >= 0)


def see(
    pid: int,
    state: str,
    tasks: Sequence[Task],
    dump: Dump,
    lanes: tuple[OfLane, ...] = (),
    called: tuple[CalledByStep, ...] = (),
) -> Seen:
    """What a process does, thread by thread."""
    by_tid = {task.tid: task for task in tasks}
    threads: list[tuple[int, Thread]] = []
    for one in dump.seen:
        tid = one.tid or (pid if one.thread.is_main else _tid_of(one.ident, lanes))
        lane = lane_of(tid, one.ident, lanes)
        phase = phase_of(tid, one.ident, called)
        thread = _with_task(one.thread, by_tid.get(tid))
        threads.append((tid, replace(thread, lane=lane, phase=phase)))
    # No Python to show, but the kernel still knows what the main thread sleeps in, and the lanes' threads.
    shown = {thread.lane for _, thread in threads}
    for of_lane in lanes:
        task = by_tid.get(of_lane.tid)
        if task is not None and task.tid != pid and of_lane.lane not in shown:
            threads.append((task.tid, _unseen(task, of_lane.lane)))
    if not any(thread.is_main for _, thread in threads) and tasks:
        threads.insert(0, (pid, replace(_unseen(tasks[0], lane_of(pid, 0, lanes)), is_main=True)))
    unread = dump.unread
    if dump.denied:
        unread = why_not(pid) or unread
    sighting = Sighting(state, tuple(thread for _, thread in threads), dump.dumper, unread)
    return Seen(sighting, tuple(tid for tid, _ in threads))


def see_alike(seen: Sighting, pid: int, lanes: tuple[OfLane, ...]) -> Seen:
    """The sighting of a process that waits as this one does: its main thread and those of its lanes are known."""
    of_lane = {one.lane: one.tid for one in lanes}
    tids = [pid if thread.is_main else of_lane.get(thread.lane, 0) for thread in seen.threads]
    return Seen(seen, tuple(tids))


def _tid_of(ident: int, lanes: tuple[OfLane, ...]) -> int:
    return next((one.tid for one in lanes if ident and one.ident == ident), 0)


def _unseen(task: Task, lane: int) -> Thread:
    return replace(_with_task(Thread(task.name, False, task.state == "R", False, ()), task), lane=lane)


def _with_task(thread: Thread, task: Task | None) -> Thread:
    if task is None:
        return thread
    # A pipe's number differs on every rank: without it, ranks that wait alike are one sighting.
    target = _ANONYMOUS.sub(r"\1", task.target)
    return replace(thread, state=task.state, wchan=task.wchan, syscall=task.syscall, target=target)
