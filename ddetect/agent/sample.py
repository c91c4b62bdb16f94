"""Take evidence: every process of the job on this node, now, in parallel and under timeouts.

Enters: what to look at. Leaves: Evidence, always complete in rows: what could not be read is a row with a
reason.
Never here: gRPC. `ddetect snapshot` and the agent use the same function.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

from ddetect_probe import rundir

from ddetect.agent.census import Census
from ddetect.agent.discover import find_children
from ddetect.agent.members import JobProcess
from ddetect.agent.pages import (
    blind_spots,
    called_by_step,
    fault_signal_of,
    fetching_of,
    framework_of,
    raised_in,
    threads_of,
    tick_age_of,
)
from ddetect.agent.sources import Reading, Source
from ddetect.evidence.flight_tables import CommsBuilder
from ddetect.frameworks import FRAMEWORKS, Registry
from ddetect.frameworks.framework import NativeMode
from ddetect.frameworks.general import GENERAL
from ddetect.host.framework import read_framework, serves_a_cluster
from ddetect.host.gpu import Gpus, busy_by_pid, has_gpu_open, read_gpus
from ddetect.host.homes import homes_of_process, read_homes
from ddetect.host.proc import Task, read_io_bytes, read_stat, read_tasks
from ddetect.host.ptrace import why_not
from ddetect.messages import Evidence, TakeEvidence
from ddetect.model import (
    UNKNOWN,
    CallSpec,
    Comms,
    Look,
    P2PKind,
    Role,
    Sample,
    Sighting,
    Thread,
    Unread,
)
from ddetect.model.homes import CodeHomes, join_homes
from ddetect.model.tables import join
from ddetect.stacks.calls import DistCall
from ddetect.stacks.dump import Dump, read_stacks
from ddetect.stacks.faulthandler import FaultFile
from ddetect.stacks.lanes import CalledByStep, OfLane, lane_of, phase_of
from ddetect.stacks.native import NativeReader

# Enough to keep the cores busy; more would only make each dump slow enough to run into its timeout.
AT_ONCE = min(16, max(4, 2 * (os.cpu_count() or 1)))
_PATIENCE_S, _NATIVE_PATIENCE_S = 3.0, 6.0
_ANONYMOUS = re.compile(r"^(pipe:|socket:)\[\d+\]$")
_PID = re.compile(r"\bpid \d+\b")
_NO_HOMES = CodeHomes()


@dataclass(frozen=True, slots=True)
class Looked:
    """One process at one instant."""

    sighting: Sighting
    cpu_s: float
    io_bytes: int
    call: DistCall | None = None  # where no page tells it
    on_gpu: bool = False  # a rank that holds a GPU open; its loader workers only inherit that
    homes: CodeHomes = _NO_HOMES  # where no page tells them


class Sampler:
    """Takes evidence with its own threads: one set dumps stacks, another asks Flight Recorders."""

    def __init__(
        self,
        census: Census,
        sources: Sequence[Source],
        *,
        probes: bool = True,
        frameworks: Registry = FRAMEWORKS,
        framework: str = "",
    ) -> None:
        """`framework` is what a process without a page trains with, where somebody knows it."""
        self._census = census
        self._frameworks = frameworks
        self.framework = framework
        self._natives = NativeReader()
        self._probes = probes  # False: nobody expects any, so a missing one is not worth a word
        self._sources = tuple(sources)
        self._calls = tuple(one.calls for one in frameworks.values())
        self._worker_loops = tuple(one.worker_loop for one in frameworks.values())
        self._dumps = ThreadPoolExecutor(AT_ONCE, "ddetect-dump")
        self._asks = ThreadPoolExecutor(AT_ONCE, "ddetect-flight")
        self._files = ThreadPoolExecutor(1, "ddetect-files")
        self._has_gpus = True  # until NVML says otherwise

    def close(self) -> None:
        """Let go of the threads; what they run is under timeouts of its own."""
        self._dumps.shutdown(wait=False, cancel_futures=True)
        self._asks.shutdown(wait=False, cancel_futures=True)
        self._files.shutdown(wait=False, cancel_futures=True)

    def targets(self) -> tuple[list[JobProcess], list[JobProcess]]:
        """Rank processes, and the processes that work for them, right now."""
        ranks = self._census.ranks()
        helpers = self._census.helpers()
        known = {member.pid for member in (*ranks, *helpers)}
        rank_of = {member.pid: member.rank for member in ranks if not member.gone}
        for root, pid, stat in find_children(rank_of, known):
            helpers.append(
                JobProcess(pid, stat.start_ticks, Role.CHILD, rank_of[root], parent=stat.parent, stat=stat)
            )
        return ranks, helpers

    def take(self, order: TakeEvidence, ranks: list[JobProcess], helpers: list[JobProcess]) -> Evidence:
        """Look at all of them. Blocks for a second or so; never raises for one process."""
        everyone = [*ranks, *helpers]
        native = frozenset(order.native_pids)
        living = [member for member in ranks if not member.gone]
        homes = self._files.submit(read_homes, self._census.run_dir)
        asked = {
            (member.key, one.what): self._asks.submit(one.read, member)
            for member in living
            for one in _sources_of(member, self._sources)
            if one.waits
        }
        looks = {m.key: self._dumps.submit(self._look, m, m.pid in native) for m in everyone}
        gpus = self._asks.submit(read_gpus) if self._has_gpus else None
        everything: list[Future[Any]] = [*asked.values(), *looks.values(), homes, *([gpus] if gpus else [])]
        wait(everything, timeout=_NATIVE_PATIENCE_S if native else _PATIENCE_S)
        looked = [_result(looks[member.key]) for member in everyone]
        readings = {key: _answer(future, key[1]) for key, future in asked.items()}
        for member in living:
            mine = _sources_of(member, self._sources)
            readings |= {(member.key, one.what): one.read(member) for one in mine if not one.waits}
        told = [reading.comms for reading in readings.values()]
        told += [
            comms_of_call(member.rank, look.call)
            for member, look in zip(ranks, looked, strict=False)  # ranks come first among those looked at
            if member.page is None and look.call is not None
        ]
        interpreters = [homes.result()] if homes.done() and not homes.exception() else []
        look = Look(
            _sample(everyone, looked, self._busy(gpus), self._worker_loops),
            join(Comms, told),
            _unread(everyone, looked, readings, probes=self._probes),
            join_homes([*interpreters, *(look.homes for look in looked)]),
        )
        return Evidence(order.request, look)

    def _busy(self, asked: Future[Gpus] | None) -> dict[int, float]:
        """How busy each process's GPU is. A driver that does not answer in time is not waited for."""
        if asked is None or not asked.done():
            return {}
        gpus = asked.result()
        self._has_gpus = bool(gpus.gpus)
        return busy_by_pid(gpus)

    def native_mode(self, member: JobProcess) -> NativeMode:
        """Of which threads of this process C symbols may be read, as its framework says."""
        # A page tells as soon as it is there; a probe that did not load is no reason to pause a TensorFlow worker.
        name = framework_of(member) or self.framework or read_framework(member.pid)
        mode = self._frameworks.get(name, GENERAL).native_mode(member.world_size)
        # Without a page nobody tells when a process joins a cluster: what serves one has a thread for it.
        late = mode is NativeMode.ALL and member.page is None and serves_a_cluster(member.pid)
        return NativeMode.NONE if late else mode

    def _look(self, member: JobProcess, native: bool) -> Looked:
        tasks = read_tasks(member.pid)
        stat = read_stat(member.pid)
        if not tasks or stat is None or stat.start_ticks != member.start_ticks:
            return Looked(Sighting("gone", unread=f"pid {member.pid} is gone"), 0.0, UNKNOWN)
        signal = fault_signal_of(member)
        path = rundir.fault_path(self._census.run_dir, member.pid)
        mode = self.native_mode(member)
        dump = read_stacks(
            member.pid,
            states=stat.state + "".join(task.state for task in tasks),
            fault=FaultFile(path, signal) if signal else None,
            native=native,
            everything=(self._natives, member.key) if mode is NativeMode.ALL else None,
            gentle=mode is NativeMode.NONE,
            calls=self._calls if member.page is None and member.role is Role.RANK else (),
        )
        seen = see(member.pid, stat.state, tasks, dump, threads_of(member), called_by_step(member))
        on_gpu = member.role is Role.RANK and has_gpu_open(member.pid)
        seen = replace(seen, raised=raised_in(member))
        homes = _NO_HOMES
        if member.page is None and member.role is Role.RANK:  # no probe told where its code lives
            files = {frame.file for thread in seen.threads for frame in thread.stack}
            homes = homes_of_process(member.pid, files)
        return Looked(seen, stat.cpu_s, read_io_bytes(member.pid), call_in(dump), on_gpu, homes)


def call_in(dump: Dump) -> DistCall | None:
    """The call that a process is in: of its main thread, or of the first other one, for a job may train there."""
    return next((one.call for one in dump.seen if one.call is not None), None)


def _sources_of(member: JobProcess, sources: Sequence[Source]) -> list[Source]:
    """Those that can tell something of this process."""
    framework = framework_of(member)
    return [one for one in sources if not one.of or not framework or one.of == framework]


def see(
    pid: int,
    state: str,
    tasks: tuple[Task, ...],
    dump: Dump,
    lanes: tuple[OfLane, ...] = (),
    called: tuple[CalledByStep, ...] = (),
) -> Sighting:
    """Join what the dumper saw with what the kernel and the page say about the same threads."""
    by_tid = {task.tid: task for task in tasks}
    threads: list[Thread] = []
    for one in dump.seen:
        tid = one.tid or (pid if one.thread.is_main else 0)
        lane = lane_of(tid, one.ident, lanes)
        phase = phase_of(tid, one.ident, called)
        threads.append(replace(_with_task(one.thread, by_tid.get(tid)), lane=lane, phase=phase))
    # No Python to show, but the kernel still knows what the main thread sleeps in, and the lanes' threads.
    shown = {thread.lane for thread in threads}
    for of_lane in lanes:
        task = by_tid.get(of_lane.tid)
        if task is not None and task.tid != pid and of_lane.lane not in shown:
            threads.append(_unseen(task, of_lane.lane))
    if not any(thread.is_main for thread in threads) and tasks:
        threads.insert(0, replace(_unseen(tasks[0], lane_of(pid, 0, lanes)), is_main=True))
    unread = dump.unread
    if dump.denied:
        unread = why_not(pid) or unread
    return Sighting(state, tuple(threads), dump.dumper, unread)


def _unseen(task: Task, lane: int) -> Thread:
    return replace(_with_task(Thread(task.name, False, task.state == "R", False, ()), task), lane=lane)


def _with_task(thread: Thread, task: Task | None) -> Thread:
    if task is None:
        return thread
    # A pipe's number differs on every rank: without it, ranks that wait alike are one sighting.
    target = _ANONYMOUS.sub(r"\1", task.target)
    return replace(thread, state=task.state, wchan=task.wchan, syscall=task.syscall, target=target)


def _result(future: Future[Looked]) -> Looked:
    if not future.done():
        return Looked(Sighting("", unread="the process could not be looked at in time"), 0.0, UNKNOWN)
    error = future.exception()
    if error is not None:
        return Looked(Sighting("", unread=f"looking at the process failed: {error!r}"), 0.0, UNKNOWN)
    return future.result()


def _answer(future: Future[Reading], what: str) -> Reading:
    if not future.done():
        return Reading(unread=f"the source of its {what} did not answer in time")
    error = future.exception()
    return future.result() if error is None else Reading(unread=f"reading its {what} failed: {error!r}")


def _sample(
    members: list[JobProcess],
    looked: list[Looked],
    busy: dict[int, float],
    worker_loops: Sequence[re.Pattern[str]],
) -> Sample:
    now_ns = time.monotonic_ns()
    numbers: dict[Sighting, int] = {}
    columns: defaultdict[str, list[float]] = defaultdict(list)
    for member, look in zip(members, looked, strict=True):
        fetching, fetch_age_s = fetching_of(member, now_ns)
        row = {
            "rank": member.rank,
            "role": _role(member, look.sighting, worker_loops),
            "index": member.index,
            "pid": member.pid,
            "sighting": numbers.setdefault(look.sighting, len(numbers)),
            "fetching": fetching,
            "fetch_age_s": fetch_age_s,
            "cpu_s": look.cpu_s,
            "io_bytes": look.io_bytes,
            "tick_age_s": tick_age_of(member, now_ns),
            "gpu_busy": busy.get(member.pid, UNKNOWN if look.on_gpu else math.nan),
        }
        for name, value in row.items():
            columns[name].append(value)
    return Sample(**columns, sightings=tuple(numbers))  # type: ignore[arg-type]  # freeze() makes arrays


def _role(member: JobProcess, sighting: Sighting, worker_loops: Sequence[re.Pattern[str]]) -> Role:
    """A child without a page is a loader worker when its stack says so."""
    stack = sighting.main.stack if member.role is Role.CHILD and sighting.main is not None else ()
    loops = any(loop.search(f"{frame.file}:{frame.function}") for loop in worker_loops for frame in stack)
    return Role.LOADER_WORKER if loops else member.role


def comms_of_call(rank: int, call: DistCall) -> Comms:
    """A call that only the stack shows: its group is known if it is the default one, its sequence number never is."""
    builder = CommsBuilder()
    group = call.group
    if not call.is_p2p:
        builder.add_call(rank, group, CallSpec(call.op, root=call.peer))
    elif call.op == "send":
        builder.add_p2p(rank, P2PKind.SEND, call.peer, call.tag, group, True, 0.0)
    else:
        kind = P2PKind.RECV_ANY if call.peer == UNKNOWN else P2PKind.RECV
        builder.add_p2p(rank, kind, call.peer, call.tag, group, True, 0.0)
    return builder.build()


def _unread(
    members: list[JobProcess],
    looked: list[Looked],
    readings: Mapping[tuple[tuple[int, int], str], Reading],
    *,
    probes: bool,
) -> tuple[Unread, ...]:
    """What is missing, ranks with the same reason together. A child that is not Python misses nothing."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for member, look in zip(members, looked, strict=True):
        if look.sighting.unread and member.role is not Role.CHILD and not member.gone:
            what = "stack" if member.role is Role.RANK else "a loader worker's stack"
            ranks[f"{what}: {_PID.sub('the process', look.sighting.unread)}"].add(member.rank)
        if probes and member.role is Role.RANK and member.page is None:
            ranks["progress: the probe is not loaded in its process"].add(member.rank)
        if member.role is Role.RANK and not member.gone:
            for reason in blind_spots(member):
                ranks[reason].add(member.rank)
    rank_of = {member.key: member.rank for member in members}
    for (key, what), reading in readings.items():
        if reading.unread:
            ranks[f"{what}: {reading.unread}"].add(rank_of[key])
    return tuple(Unread(tuple(sorted(members)), reason) for reason, members in ranks.items())
