"""What threads did since we looked before: counters read before and after each question, remembered for a while.

Enters: a process, what the kernel says about its threads, the sockets of the host. Leaves: `Metered`, the threads that
ran or moved bytes, each with how much. A look reads the counters, lets the dumper work, and reads them again: what grew
between two looks is before of the one minus after of the other, so our own pauses never count. Turns on a CPU may be
read by everybody; bytes need the rights of ptrace, and stay unknown without.
Used from several threads at once. Never here: pausing anybody; memory of what is gone; whether work is progress.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ddetect.agent.counters import read_counts, read_settled
from ddetect.agent.members import JobProcess
from ddetect.agent.window import Count, Stretch, Sum, Traffic, Window, add_up, grown
from ddetect.host.descriptors import read_blocked_in, read_open_sockets
from ddetect.host.proc import Task, read_io_bytes, read_name
from ddetect.host.sockets import Sockets, read_sockets
from ddetect.model import UNKNOWN, Role
from ddetect.stacks.dump import FAULTHANDLER, Dump

WINDOW_S = 30.0
MOST_ROWS = 16
"""Of one process: the threads that are judged first, then the busiest."""
_NEVER = -math.inf
_Key = tuple[int, int]


class Effort(NamedTuple):
    """A row of `Efforts` without its process."""

    thread: int
    busy: float
    runs: int
    bytes: int
    bytes_age_s: float


@dataclass(frozen=True, slots=True)
class Metered:
    """What one process did in its window; without a length nothing was metered."""

    length_s: float = math.nan
    efforts: tuple[Effort, ...] = ()
    moved_bytes: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class Wires:
    """The TCP sockets of this host, and which of them rank processes have: their forked children only inherit those."""

    sockets: Sockets = field(default_factory=Sockets)
    of_rank: Mapping[int, frozenset[int]] = field(default_factory=dict)


def read_wires(ranks: Sequence[JobProcess]) -> Wires:
    """Ask once for all processes of a look."""
    sockets = read_sockets()
    living = [member for member in ranks if not member.gone] if sockets.moved else []
    return Wires(sockets, {one.rank: frozenset(read_open_sockets(one.pid).values()) for one in living})


@dataclass(slots=True)
class _Memory:
    """Of one process, behind the meter's lock. Its dictionaries are replaced, never changed."""

    window: Window
    at: float = _NEVER  # when its counters were read last, and what they were
    counts: Mapping[int, Count] = field(default_factory=dict)
    io_bytes: int = UNKNOWN
    cpu_s: float = 0.0
    wired_at: float = (
        _NEVER  # when its sockets were read last, what they had moved, and whether we saw all there were
    )
    wired: Mapping[int, int] = field(default_factory=dict)
    all_wired: bool = False
    inherited: frozenset[int] = frozenset()
    met: Mapping[tuple[int, int], float] = field(
        default_factory=dict
    )  # when a thread was blocked in which inode
    ours: frozenset[int] | None = None  # the probe's threads; None: no dumper has told yet
    looks: int = 0  # that are under way


@dataclass(slots=True, eq=False)
class Metering:
    """One look at one process: who takes it says by which dumper, and afterwards which thread is which."""

    meter: Meter
    member: JobProcess
    memory: _Memory
    at: float
    counts: Mapping[int, Count]
    io_bytes: int
    cpu_s: float
    asleep: frozenset[int]  # threads that did not run when the look began
    dumper: str = ""
    untouched: bool = False  # nobody paused it, nor asked it for anything

    def dumped(self, dump: Dump) -> None:
        """Its stacks were taken so; a dumper may know which threads are the probe's."""
        self.dumper = dump.dumper
        if dump.ours is not None:
            self.memory.ours = dump.ours

    def metered(
        self, places: Mapping[int, int], leading: Collection[int] = (), *, whole: bool = False
    ) -> Metered:
        """Its rows. `places` say where each thread stands in the sighting, `leading` are the places that are judged.

        All threads that have no place are one row; so are (`whole`) all that there are.
        """
        length_s, threads, process = self.meter.sums(self)
        if not length_s > 0:
            return Metered()
        if whole:
            every = add_up(threads.values())
            every = replace(process, cpu_ns=max(every.cpu_ns, process.cpu_ns), runs=every.runs)
            rows = [(UNKNOWN, every)] if every else []
        else:
            rows = [(places[tid], one) for tid, one in threads.items() if tid in places]
            below = [one for tid, one in threads.items() if tid not in places]
            rows += [(UNKNOWN, _busiest(below))] if below else []
        rows.sort(key=lambda row: (row[0] not in leading, -row[1].cpu_ns, -row[1].bytes))
        efforts = tuple(
            Effort(place, one.cpu_ns / 1e9 / length_s, one.runs, one.bytes, self.at - one.moved_at)
            for place, one in rows[:MOST_ROWS]
        )
        return Metered(length_s, efforts, process.bytes)


class Meter:
    """Remembers processes by pid and start time; one that was not looked at for a window's length is forgotten."""

    def __init__(
        self,
        services: Sequence[re.Pattern[str]] = (),
        *,
        window_s: float = WINDOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`services` fit the names of threads that run for ever and mean nothing."""
        self._services = tuple(services)
        self._window_s = window_s
        self._clock = clock
        self._lock = threading.Lock()
        self._processes: dict[_Key, _Memory] = {}

    def __len__(self) -> int:
        return len(self._processes)

    @contextmanager
    def asking(
        self, member: JobProcess, cpu_s: float, tasks: Sequence[Task] = (), wires: Wires | None = None
    ) -> Iterator[Metering]:
        """Read its counters, let the caller take its stacks and say how (`Metering.dumped`), and read them again."""
        metering = self._begin(member, cpu_s, tasks)
        try:
            if wires is not None:
                self._note_wires(metering, tasks, wires)
            yield metering
        finally:
            self._end(metering)

    def read(self, member: JobProcess, cpu_s: float) -> Metering:
        """Read the counters of a process that nobody pauses."""
        with self.asking(member, cpu_s) as metering:
            metering.untouched = True
        return metering

    def knows_ours(self, key: _Key) -> bool:
        """Whether a dumper has told which threads of this process are the probe's."""
        memory = self._processes.get(key)
        return memory is not None and memory.ours is not None

    def sums(self, metering: Metering) -> tuple[float, dict[int, Sum], Sum]:
        """How long the window is; what each thread did that lives and is the job's; what the process did."""
        memory = metering.memory
        with self._lock:
            blocked: defaultdict[int, list[int]] = defaultdict(list)
            for tid, inode in memory.met:
                blocked[tid].append(inode)
            moved = {inode for one in memory.window.traffic for inode in one.moved}
            mine = moved - memory.inherited | {inode for _, inode in memory.met}
            length_s, ours = memory.window.length_s, memory.ours or frozenset()
            threads, process = memory.window.threads(blocked), memory.window.process(mine)
        if process.bytes > 0:  # the probe reads pages now and then
            by_probe = sum(max(0, one.bytes) for tid, one in threads.items() if tid in ours)
            process = replace(process, bytes=max(0, process.bytes - by_probe))
        pid = metering.member.pid
        living = {
            tid: one
            for tid, one in threads.items()
            if tid in metering.counts and tid not in ours and not self._is_service(read_name(pid, tid))
        }
        return length_s, living, process

    def _begin(self, member: JobProcess, cpu_s: float, tasks: Sequence[Task]) -> Metering:
        with self._lock:
            memory = self._recall(member.key, self._clock())
            known, alone = memory.counts, memory.looks == 0
            memory.looks += 1
        now = self._clock()
        counts, io_bytes = read_counts(member.pid, known), read_io_bytes(member.pid)
        asleep = frozenset(task.tid for task in tasks if task.state != "R")
        metering = Metering(self, member, memory, now, counts, io_bytes, cpu_s, asleep)
        with self._lock:
            # While another look pauses the process, nobody knows what it did by itself.
            if alone and memory.counts is known and counts and now - memory.at <= self._window_s:
                memory.window.stretches.append(_stretch(memory, metering))
        return metering

    def _note_wires(self, metering: Metering, tasks: Sequence[Task], wires: Wires) -> None:
        """Remember what its sockets have moved, and who waits for which."""
        memory, member = metering.memory, metering.member
        inodes = read_open_sockets(member.pid)
        every = wires.sockets.moved
        wired = {inode: every[inode] for inode in inodes.values() if inode in every}
        met = {
            (task.tid, inodes[descriptor]): metering.at
            for task in (tasks if wired else ())
            if not self._is_service(task.name)
            for descriptor in read_blocked_in(member.pid, task)
            if inodes.get(descriptor) in wired
        }
        with self._lock:
            if memory.wired_at > _NEVER:
                # A socket that is new to us was made since, unless it may have been among those that we did not see.
                known = wired if not memory.all_wired else dict.fromkeys(wired, 0)
                before = {**known, **memory.wired}
                growth = {inode: max(0, now - before[inode]) for inode, now in wired.items()}
                memory.window.traffic.append(Traffic(memory.wired_at, metering.at, growth))
            memory.wired_at, memory.wired, memory.all_wired = metering.at, wired, wires.sockets.complete
            memory.met = {**memory.met, **met}
            if member.role is not Role.RANK:
                memory.inherited = wires.of_rank.get(member.rank, frozenset())

    def _end(self, metering: Metering) -> None:
        counts, io_bytes = metering.counts, metering.io_bytes
        if not metering.untouched:
            wrote = metering.dumper == FAULTHANDLER  # it made the process write its stacks
            pid = metering.member.pid
            counts = read_settled(pid, metering.counts, metering.asleep, bytes_too=wrote)
            io_bytes = read_io_bytes(pid) if wrote else io_bytes
        with self._lock:
            memory = metering.memory
            memory.looks -= 1
            if counts:
                memory.at, memory.counts = self._clock(), counts
                memory.io_bytes, memory.cpu_s = io_bytes, metering.cpu_s

    def _recall(self, key: _Key, now: float) -> _Memory:
        """What is known of a process, without what is too old; nothing yet, if all of it is."""
        memory = self._processes.get(key)
        if memory is None or now - memory.at > self._window_s:
            for one in [one for one, old in self._processes.items() if self._is_over(old, now)]:
                del self._processes[one]
            memory = self._processes.setdefault(key, _Memory(Window(self._window_s)))
        memory.window.forget(now)
        memory.met = {who: at for who, at in memory.met.items() if now - at <= self._window_s}
        if now - memory.wired_at > self._window_s:
            memory.wired_at = _NEVER
        return memory

    def _is_over(self, memory: _Memory, now: float) -> bool:
        return not memory.looks and now - memory.at > self._window_s

    def _is_service(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self._services)


def _stretch(memory: _Memory, metering: Metering) -> Stretch:
    """What was done since the look before."""
    growth = {tid: grown(one, memory.counts.get(tid)) for tid, one in metering.counts.items()}
    return Stretch(
        memory.at,
        metering.at,
        {tid: one for tid, one in growth.items() if one.cpu_ns or one.runs},
        max(0, metering.io_bytes - memory.io_bytes)
        if min(metering.io_bytes, memory.io_bytes) >= 0
        else UNKNOWN,
        max(0.0, metering.cpu_s - memory.cpu_s),
    )


def _busiest(below: Sequence[Sum]) -> Sum:
    """Of the threads below Python the busiest; bytes are of all, for nobody knows which of a pool will move them."""
    every = add_up(below)
    most = max(below, key=lambda one: (one.cpu_ns, one.runs))
    return replace(most, bytes=every.bytes, moved_at=every.moved_at)
