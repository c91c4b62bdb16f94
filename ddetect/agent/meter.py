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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ddetect.agent.counters import is_woken, read_counts
from ddetect.agent.members import JobProcess
from ddetect.agent.memory import Counters, Memory, Wired
from ddetect.agent.window import Count, Sum, add_up
from ddetect.host.descriptors import read_blocked_in, read_open_sockets
from ddetect.host.proc import Task, read_io_bytes, read_name, read_runs
from ddetect.host.sockets import Sockets, read_sockets
from ddetect.model import UNKNOWN, Role
from ddetect.stacks.dump import FAULTHANDLER, Dump

WINDOW_S = 30.0
MOST_ROWS = 16
"""Of one process: the threads that are judged first, then the busiest."""
SETTLE_S = 0.3
"""A dumper has let go, and its target still has to run once more: so long we wait for that on a busy machine. Later it
is taken for a turn of the thread's own, which is a row too many, and no harm."""

_FIRST_REST_S, _LONGEST_REST_S = 0.001, 0.03
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


@dataclass(slots=True, eq=False)
class Metering:
    """One look at one process: who takes it says by which dumper, and afterwards which thread is which."""

    meter: Meter
    member: JobProcess
    memory: Memory
    before: Counters
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
            Effort(place, one.cpu_ns / 1e9 / length_s, one.runs, one.bytes, self.before.at - one.moved_at)
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
        self._lock = threading.Lock()  # around every memory
        self._processes: dict[_Key, Memory] = {}

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

    def settle(self) -> None:
        """Wait until all that our pauses have woken up sleep again, and count what that took. Due after every look."""
        with self._lock:
            several = list(self._processes.items())
        self._settle(several)

    def knows_ours(self, key: _Key) -> bool:
        """Whether a dumper has told which threads of this process are the probe's."""
        memory = self._processes.get(key)
        return memory is not None and memory.ours is not None

    def sums(self, metering: Metering) -> tuple[float, dict[int, Sum], Sum]:
        """How long the window is; what each thread did that lives and is the job's; what the process did."""
        with self._lock:
            length_s = metering.memory.window.length_s
            threads, process = metering.memory.sums()
        pid = metering.member.pid
        living = {
            tid: one
            for tid, one in threads.items()
            if tid in metering.before.threads and not self._is_service(read_name(pid, tid))
        }
        return length_s, living, process

    def _begin(self, member: JobProcess, cpu_s: float, tasks: Sequence[Task]) -> Metering:
        with self._lock:
            memory = self._recall(member.key, self._clock())
        self._settle([(member.key, memory)])
        with self._lock:
            last, alone = memory.last, memory.looks == 0
            memory.looks += 1
        now = self._clock()
        before = Counters(now, read_counts(member.pid, last.threads), read_io_bytes(member.pid), cpu_s)
        with self._lock:
            # While another look pauses the process, nobody knows what it did by itself.
            if alone and memory.last is last:
                memory.add(before)
        asleep = frozenset(task.tid for task in tasks if task.state != "R")
        return Metering(self, member, memory, before, asleep)

    def _note_wires(self, metering: Metering, tasks: Sequence[Task], wires: Wires) -> None:
        """Remember what its sockets have moved, and who waits for which."""
        memory, member, now = metering.memory, metering.member, metering.before.at
        inodes = read_open_sockets(member.pid)
        every = wires.sockets.moved
        wired = {inode: every[inode] for inode in inodes.values() if inode in every}
        met = {
            (task.tid, inodes[descriptor]): now
            for task in (tasks if wired else ())
            if not self._is_service(task.name)
            for descriptor in read_blocked_in(member.pid, task)
            if inodes.get(descriptor) in wired
        }
        with self._lock:
            memory.add_wires(Wired(now, wired, wires.sockets.complete), met)
            if member.role is not Role.RANK:
                memory.inherited = wires.of_rank.get(member.rank, frozenset())

    def _end(self, metering: Metering) -> None:
        after, woken = (metering.before, {}) if metering.untouched else _read_after(metering)
        with self._lock:
            metering.memory.looks -= 1
            metering.memory.keep(replace(after, at=self._clock()), woken)

    def _settle(self, several: Sequence[tuple[_Key, Memory]]) -> None:
        deadline, rest_s = time.monotonic() + SETTLE_S, _FIRST_REST_S
        while waking := [(key[0], memory) for key, memory in several if memory.woken]:
            in_time = time.monotonic() < deadline
            if in_time:
                time.sleep(rest_s)
                rest_s = min(2 * rest_s, _LONGEST_REST_S)
            for pid, memory in waking:
                woken = memory.woken
                counts = {tid: Count(*read_runs(pid, tid)) for tid in woken}
                still = {t: one for t, one in woken.items() if in_time and is_woken(pid, t, one, counts[t])}
                with self._lock:
                    if memory.woken is woken:  # nobody has looked meanwhile
                        memory.settle(counts, still)

    def _recall(self, key: _Key, now: float) -> Memory:
        """What is known of a process, without what is too old; nothing yet, if all of it is."""
        memory = self._processes.get(key)
        if memory is None or memory.is_over(now):
            for one in [one for one, old in self._processes.items() if old.is_over(now)]:
                del self._processes[one]
            memory = self._processes.setdefault(key, Memory(self._window_s))
        memory.forget(now)
        return memory

    def _is_service(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self._services)


def _read_after(metering: Metering) -> tuple[Counters, dict[int, Count]]:
    """The counters after a dump, and the threads that it woke up and that have not come to sleep again."""
    pid, before = metering.member.pid, metering.before
    wrote = metering.dumper == FAULTHANDLER  # it made the process write its stacks
    threads = read_counts(pid, before.threads, bytes_too=wrote)
    paused = metering.asleep & before.threads.keys() & threads.keys()
    woken = {
        tid: before.threads[tid] for tid in paused if is_woken(pid, tid, before.threads[tid], threads[tid])
    }
    io_bytes = read_io_bytes(pid) if wrote else before.io_bytes
    return replace(before, threads=threads, io_bytes=io_bytes), woken


def _busiest(below: Sequence[Sum]) -> Sum:
    """Of the threads below Python the busiest; bytes are of all, for nobody knows which of a pool will move them."""
    every = add_up(below)
    most = max(below, key=lambda one: (one.cpu_ns, one.runs))
    return replace(most, bytes=every.bytes, moved_at=every.moved_at)
