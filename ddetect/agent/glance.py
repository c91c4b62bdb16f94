"""A light look: what the kernel and the pages say of every process, and one stack for all ranks that wait alike.

Enters: the processes of a node. Leaves: a Look that tells whether threads ran, and roughly where; it cost the job
nothing. Ranks are alike whose lanes are in the same phases and whose threads sleep in the same place of the kernel:
the lowest of them is dumped in passing, and its sighting stands for all. Of loader workers and children only what the
kernel says. Never here: a pause, a signal, a question to a rank, GPUs, sockets; a look to judge by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ddetect.agent.members import JobProcess
from ddetect.agent.meter import Meter, Metering
from ddetect.agent.pages import ToldLane, called_by_step, raised_in, read_told
from ddetect.agent.rows import Looked, efforts_of, gone, sample_of, unread_of
from ddetect.agent.see import Seen, see, see_alike
from ddetect.agent.sources import Reading, Source, sources_of
from ddetect.host.proc import Stat, Task, is_alive, read_stat, read_task, read_tasks
from ddetect.model import Comms, Look, Role, Sighting
from ddetect.model.tables import join
from ddetect.stacks.dump import Dump, read_stacks
from ddetect.stacks.lanes import OfLane

NOT_TAKEN = "a light look takes no stack of it"
NOT_ASKED = "a light look does not ask for them"
TOO_LATE = "the process could not be looked at in time"
_Key = tuple[int, int]
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class _Glanced:
    """A living process: what the kernel says of the threads that are judged, and its counters."""

    member: JobProcess
    stat: Stat
    tasks: tuple[Task, ...]  # the main thread, and those of its lanes
    lanes: tuple[ToldLane, ...]
    metering: Metering

    @property
    def alike(self) -> Hashable:
        """Equal for ranks that wait alike, as far as can be seen from outside."""
        phases = tuple((lane.lane, lane.phase) for lane in self.lanes)
        of_lanes = {lane.tid for lane in self.lanes}
        judged = [task for task in self.tasks if task.tid in of_lanes] or self.tasks[:1]
        waits = tuple(("R",) if t.state == "R" else (t.state, t.wchan, t.syscall) for t in judged)
        main = tuple(task.tid == self.member.pid for task in judged)
        return self.member.page is not None, self.stat.state, phases, main, waits

    @property
    def threads(self) -> tuple[OfLane, ...]:
        return tuple(OfLane(one.lane, one.ident, one.tid) for one in self.lanes if one.ident or one.tid)


class Glancer:
    """Takes light looks, with the threads and the meter of full ones."""

    def __init__(self, pool: Executor, meter: Meter, sources: Sequence[Source], *, probes: bool) -> None:
        self._pool, self._meter, self._sources, self._probes = pool, meter, tuple(sources), probes

    def take(
        self,
        ranks: Sequence[JobProcess],
        helpers: Sequence[JobProcess],
        role_of: Callable[[JobProcess], Role],
        within_s: float,
    ) -> Look:
        """Look at all of them. Never raises for one process."""
        deadline = time.monotonic() + within_s
        everyone = [*ranks, *helpers]
        living = [member for member in everyone if not member.gone]
        glanced = self._all(deadline, {one.key: partial(_glance_at, one, self._meter) for one in living})
        seen = self._see(deadline, [one for rank in ranks if (one := glanced.get(rank.key)) is not None])
        looked = [_looked(member, glanced.get(member.key), seen.get(member.key)) for member in everyone]
        told = self._read_pages([rank for rank in ranks if not rank.gone])
        return Look(
            sample_of(everyone, looked, [role_of(member) for member in everyone], {}),
            join(Comms, [reading.comms for reading in told.values()]),
            unread_of(ranks, looked[: len(ranks)], told, probes=self._probes),
            efforts=efforts_of(everyone, looked),
        )

    def _see(self, deadline: float, ranks: Sequence[_Glanced]) -> dict[_Key, Seen]:
        """What each rank does: as the first of those does that wait alike."""
        first: dict[Hashable, _Glanced] = {}
        for one in ranks:
            first.setdefault(one.alike, one)
        # Which thread is the probe's only a dump tells: one more rank a look is dumped until it is known of all.
        strange = [one for one in ranks if not self._meter.knows_ours(one.member.key)]
        dumped = {one.member.key: one for one in (*first.values(), *strange[:1])}
        dumps = self._all(deadline, {key: partial(_dump, one) for key, one in dumped.items()})
        seen: dict[_Key, Seen] = {}
        for one in first.values():
            tasks, dump = dumps.get(one.member.key) or (one.tasks, Dump(unread=TOO_LATE))
            called = called_by_step(one.member)
            seen[one.member.key] = see(one.member.pid, one.stat.state, tasks, dump, one.threads, called)
        for one in ranks:
            model = seen[first[one.alike].member.key].sighting
            seen.setdefault(one.member.key, see_alike(model, one.member.pid, one.threads))
        return seen

    def _read_pages(self, ranks: Iterable[JobProcess]) -> dict[tuple[_Key, str], Reading]:
        """What sources tell that need not ask the rank; of the others, that they were not asked."""
        return {
            (member.key, one.what): Reading(unread=NOT_ASKED) if one.waits else one.read(member)
            for member in ranks
            for one in sources_of(member, self._sources)
        }

    def _all(self, deadline: float, work: Mapping[_Key, Callable[[], _Done | None]]) -> dict[_Key, _Done]:
        """Do it for all at once; who is gone, fails or takes too long is left out."""
        futures = {key: self._pool.submit(call) for key, call in work.items()}
        wait(futures.values(), timeout=max(0.0, deadline - time.monotonic()))
        well = {key: one for key, one in futures.items() if one.done() and one.exception() is None}
        return {key: done for key, one in well.items() if (done := one.result()) is not None}


def _glance_at(member: JobProcess, meter: Meter) -> _Glanced | None:
    stat = read_stat(member.pid)
    if stat is None or stat.start_ticks != member.start_ticks:
        return None
    lanes = read_told(member, time.monotonic_ns()).lanes if member.role is Role.RANK else ()
    tids = dict.fromkeys((member.pid, *(lane.tid for lane in lanes if lane.tid)))
    tasks = [task for tid in tids if (task := read_task(member.pid, tid)) is not None]
    return _Glanced(member, stat, tuple(tasks), lanes, meter.read(member, stat.cpu_s))


def _dump(one: _Glanced) -> tuple[tuple[Task, ...], Dump]:
    """Its stacks, in passing, and what the kernel says of all its threads."""
    pid = one.member.pid
    dump = read_stacks(pid, states=one.stat.state + "".join(task.state for task in one.tasks), passing=True)
    one.metering.dumped(dump)
    return read_tasks(pid), dump


def _looked(member: JobProcess, one: _Glanced | None, seen: Seen | None) -> Looked:
    if one is None:
        alive = not member.gone and is_alive(*member.key)
        return Looked(Sighting("", unread=TOO_LATE)) if alive else gone(member.pid)
    if seen is None:  # a loader worker or a child
        seen = see(member.pid, one.stat.state, one.tasks, Dump(unread=NOT_TAKEN))
        metered = one.metering.metered({}, whole=True)
    else:
        metered = one.metering.metered(seen.places, seen.leading)
    sighting = replace(seen.sighting, raised=raised_in(member))
    return Looked(sighting, one.stat.cpu_s, one.metering.before.io_bytes, metered=metered)
