"""Read the counters of one process's threads, and wait until the pause that we made is over.

Enters: a pid. Leaves: `Count`s by the kernel's number of the thread; none where the process is gone or the kernel does
not count. Never here: memory of an earlier reading (meter.py), pausing anybody.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from ddetect.agent.window import Count, grown
from ddetect.host.proc import read_io_bytes, read_runs, read_stat, read_tids

SETTLE_S = 0.3
"""A dumper has let go, and its target still has to wake up once: so long we wait for that on a busy machine. Later it
would be taken for a turn of the thread's own."""

_MOST_THREADS = 2048
_FIRST_REST_S, _LONGEST_REST_S = 0.001, 0.03
# What a pause takes of a thread: one turn to stop, one to go on, some 30 us. Who does more works by itself.
_RUNS_OF_A_PAUSE, _NS_OF_A_PAUSE = 2, 1_000_000


def read_counts(pid: int, known: Mapping[int, Count], *, bytes_too: bool = True) -> dict[int, Count]:
    """The counters of all threads; bytes are read anew of those that ran, for others cannot have moved any."""
    counts: dict[int, Count] = {}
    for tid in read_tids(pid)[:_MOST_THREADS]:
        cpu_ns, runs = read_runs(pid, tid)
        if runs <= 0:  # it is gone, it never ran, or this kernel does not count
            continue
        before = known.get(tid)
        if before is None or (bytes_too and before[:2] != (cpu_ns, runs)):
            counts[tid] = Count(cpu_ns, runs, read_io_bytes(pid, tid))
        else:
            counts[tid] = Count(cpu_ns, runs, before.io_bytes)
    return counts


def read_settled(
    pid: int, before: Mapping[int, Count], asleep: Collection[int], *, bytes_too: bool
) -> dict[int, Count]:
    """The counters after a pause, once the threads that slept `before` it have woken up, and sleep again."""
    counts = read_counts(pid, before, bytes_too=bytes_too)
    late = [tid for tid in asleep if _is_late(pid, tid, before, counts)]
    deadline, rest_s = time.monotonic() + SETTLE_S, _FIRST_REST_S
    while late and time.monotonic() < deadline:
        time.sleep(rest_s)
        rest_s = min(2 * rest_s, _LONGEST_REST_S)
        for tid in late:
            cpu_ns, runs = read_runs(pid, tid)
            if runs > 0:
                counts[tid] = Count(cpu_ns, runs, counts[tid].io_bytes)
        late = [tid for tid in late if _is_late(pid, tid, before, counts)]
    return counts


def _is_late(pid: int, tid: int, before: Mapping[int, Count], after: Mapping[int, Count]) -> bool:
    """Whether a thread that slept was woken up by our pause, and has not come to sleep again."""
    if tid not in before or tid not in after:
        return False
    did = grown(after[tid], before[tid])
    if did.runs > _RUNS_OF_A_PAUSE or did.cpu_ns > _NS_OF_A_PAUSE:
        return False
    stat = read_stat(pid, tid)
    return stat is not None and stat.state in "Rt"  # waits for a CPU, or is not let go of yet
