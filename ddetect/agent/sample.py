"""Take evidence: every process of the job on this node, now, in parallel and under timeouts.

Enters: what to look at. Leaves: Evidence, always complete in rows: what could not be read is a row with a
reason.
Never here: gRPC. `ddetect snapshot` and the agent use the same function.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

from ddetect_probe import rundir

from ddetect.agent.census import Census
from ddetect.agent.discover import find_children
from ddetect.agent.glance import Glancer
from ddetect.agent.members import JobProcess
from ddetect.agent.meter import Meter, Wires, read_wires
from ddetect.agent.pages import called_by_step, fault_signal_of, framework_of, raised_in, threads_of
from ddetect.agent.rows import (
    Looked,
    call_in,
    comms_of_call,
    efforts_of,
    gone,
    result_of,
    role_of,
    sample_of,
    unread_of,
)
from ddetect.agent.see import see
from ddetect.agent.sources import Reading, Source, sources_of
from ddetect.frameworks import FRAMEWORKS, Registry
from ddetect.frameworks.framework import NativeMode
from ddetect.frameworks.general import GENERAL
from ddetect.host.framework import read_framework, serves_a_cluster
from ddetect.host.gpu import Gpus, busy_by_pid, has_gpu_open, read_gpus
from ddetect.host.homes import homes_of_process, read_homes
from ddetect.host.proc import read_io_bytes, read_stat, read_tasks
from ddetect.messages import Evidence, TakeEvidence
from ddetect.model import Comms, Look, Role
from ddetect.model.homes import CodeHomes, join_homes
from ddetect.model.tables import join
from ddetect.stacks.dump import read_stacks
from ddetect.stacks.faulthandler import FaultFile
from ddetect.stacks.native import NativeReader

# Enough to keep the cores busy; more would only make each dump slow enough to run into its timeout.
AT_ONCE = min(16, max(4, 2 * (os.cpu_count() or 1)))
_PATIENCE_S, _NATIVE_PATIENCE_S = 3.0, 6.0
_NO_HOMES = CodeHomes()


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
        self._meter = Meter([one.service_threads for one in frameworks.values()])
        self._glancer = Glancer(self._dumps, self._meter, self._sources, probes=probes)
        self._after = ThreadPoolExecutor(1, "ddetect-settle")
        self._roles: dict[tuple[int, int], Role] = {}  # as stacks told in the last full look
        self._has_gpus = True  # until NVML says otherwise

    def close(self) -> None:
        """Let go of the threads; what they run is under timeouts of its own."""
        self._dumps.shutdown(wait=False, cancel_futures=True)
        self._asks.shutdown(wait=False, cancel_futures=True)
        self._files.shutdown(wait=False, cancel_futures=True)
        self._after.shutdown(wait=False, cancel_futures=True)

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
        homes = self._files.submit(read_homes, self._census.run_dir)
        if order.light:
            look = self._glancer.take(ranks, helpers, self._role_before, _PATIENCE_S)
            return Evidence(order.request, replace(look, homes=join_homes(_told(homes))))
        everyone = [*ranks, *helpers]
        native = frozenset(order.native_pids)
        living = [member for member in ranks if not member.gone]
        wires = read_wires(living)
        asked = {
            (member.key, one.what): self._asks.submit(one.read, member)
            for member in living
            for one in sources_of(member, self._sources)
            if one.waits
        }
        looks = {m.key: self._dumps.submit(self._look, m, m.pid in native, wires) for m in everyone}
        gpus = self._asks.submit(read_gpus) if self._has_gpus else None
        everything: list[Future[Any]] = [*asked.values(), *looks.values(), homes, *([gpus] if gpus else [])]
        wait(everything, timeout=_NATIVE_PATIENCE_S if native else _PATIENCE_S)
        self._after.submit(self._meter.settle)  # nobody waits for that but the next look
        looked = [result_of(looks[member.key]) for member in everyone]
        readings = {key: _answer(future, key[1]) for key, future in asked.items()}
        for member in living:
            mine = sources_of(member, self._sources)
            readings |= {(member.key, one.what): one.read(member) for one in mine if not one.waits}
        told = [reading.comms for reading in readings.values()]
        told += [
            comms_of_call(member.rank, look.call)
            for member, look in zip(ranks, looked, strict=False)  # ranks come first among those looked at
            if member.page is None and look.call is not None
        ]
        roles = [
            role_of(member, look.sighting, self._worker_loops)
            for member, look in zip(everyone, looked, strict=True)
        ]
        self._roles = dict(zip((member.key for member in everyone), roles, strict=True))
        look = Look(
            sample_of(everyone, looked, roles, self._busy(gpus)),
            join(Comms, told),
            unread_of(everyone, looked, readings, probes=self._probes),
            join_homes([*_told(homes), *(look.homes for look in looked)]),
            efforts_of(everyone, looked),
        )
        return Evidence(order.request, look)

    def _role_before(self, member: JobProcess) -> Role:
        """A light look has no stack of a child that could tell its role."""
        known = self._roles.get(member.key) if member.role is Role.CHILD else None
        return member.role if known is None else known

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

    def _look(self, member: JobProcess, native: bool, wires: Wires) -> Looked:
        tasks = read_tasks(member.pid)
        stat = read_stat(member.pid)
        if not tasks or stat is None or stat.start_ticks != member.start_ticks:
            return gone(member.pid)
        signal = fault_signal_of(member)
        path = rundir.fault_path(self._census.run_dir, member.pid)
        mode = self.native_mode(member)
        with self._meter.asking(member, stat.cpu_s, tasks, wires) as metering:
            dump = read_stacks(
                member.pid,
                states=stat.state + "".join(task.state for task in tasks),
                fault=FaultFile(path, signal) if signal else None,
                native=native,
                everything=(self._natives, member.key) if mode is NativeMode.ALL else None,
                gentle=mode is NativeMode.NONE,
                calls=self._calls if member.page is None and member.role is Role.RANK else (),
            )
            metering.dumped(dump)
        seen = see(member.pid, stat.state, tasks, dump, threads_of(member), called_by_step(member))
        # Of a child that is no Python nobody knows which of its threads matters.
        whole = member.role is not Role.RANK and not dump.seen
        homes = _NO_HOMES
        if member.page is None and member.role is Role.RANK:  # no probe told where its code lives
            files = {frame.file for thread in seen.sighting.threads for frame in thread.stack}
            homes = homes_of_process(member.pid, files)
        return Looked(
            replace(seen.sighting, raised=raised_in(member)),
            stat.cpu_s,
            read_io_bytes(member.pid),
            call_in(dump),
            member.role is Role.RANK and has_gpu_open(member.pid),
            homes,
            metering.metered(seen.places, seen.leading, whole=whole),
        )


def _answer(future: Future[Reading], what: str) -> Reading:
    if not future.done():
        return Reading(unread=f"the source of its {what} did not answer in time")
    error = future.exception()
    return future.result() if error is None else Reading(unread=f"reading its {what} failed: {error!r}")


def _told(homes: Future[CodeHomes]) -> list[CodeHomes]:
    """What probes told of their interpreters, if it could be read by now."""
    return [homes.result()] if homes.done() and not homes.exception() else []
