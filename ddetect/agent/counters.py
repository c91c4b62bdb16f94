"""Read the counters of one process's threads, and tell who has not come to rest yet after a pause.

Enters: a pid. Leaves: `Count`s by the kernel's number of the thread; none where the process is gone or the kernel does
not count. Never here: memory of an earlier reading (meter.py), waiting, pausing anybody.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddetect.agent.window import Count, grown
from ddetect.host.proc import read_io_bytes, read_runs, read_stat, read_tids

_MOST_THREADS = 2048
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


def is_woken(pid: int, tid: int, before: Count, after: Count) -> bool:
    """Whether a thread that slept was woken up by a pause, and has not come to sleep again."""
    did = grown(after, before)
    if did.runs > _RUNS_OF_A_PAUSE or did.cpu_ns > _NS_OF_A_PAUSE:
        return False
    stat = read_stat(pid, tid)
    return stat is not None and stat.state in "Rt"  # it waits for a CPU, or is not let go of yet
