"""Has a culprit moved between the looks? A Snapshot and ranks enter, a sentence leaves: "" means nothing moved.

CPU time is not motion (waiters spin), and neither is another line of the same functions: a busy loop has those too.
Loader workers count as their rank does; its other threads and children only where the rank waits for them.
Never here: who the culprits are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np

from ddetect.correlate.classify import classify
from ddetect.correlate.kinds import Kind, Posture
from ddetect.correlate.signatures import default_signatures
from ddetect.correlate.where import innermost_user, is_probe
from ddetect.model import Ints, Role, Sample, Sighting, Snapshot, Thread
from ddetect.rankset import format_ranks

IO_NOISE_BYTES = 65536
"""Less than this between two looks is logging and our own questions, not a checkpoint."""

BYTES_MOVE = "bytes are read or written"

Path = tuple[tuple[str, str], ...]
_POOL_THREAD = re.compile(r"(concurrent/futures/process|loky/process_executor|_async_process_executor)\.py$")
"""The thread that talks to the processes of an executor, while the main thread waits for a future."""


def moved(snapshot: Snapshot, ranks: Iterable[int]) -> str:
    """What moved among these ranks between the first look and the last: fetches, stacks, bytes. "" if nothing did."""
    wanted = np.unique(np.fromiter(ranks, np.int64))
    if len(snapshot.samples) < 2 or not len(wanted):
        return ""
    parts: list[str] = []
    for before, after in zip(snapshot.samples, snapshot.samples[1:], strict=False):
        parts += [f"{what} on {_ranks(ranks)}" for what, ranks in changes(before, after, wanted).items()]
    return "; ".join(dict.fromkeys(parts))


def changes(
    before: Sample, after: Sample, wanted: Ints, *, io_noise_bytes: int = IO_NOISE_BYTES
) -> dict[str, set[int]]:
    """Compare two looks, process by process: what changed, and on which ranks."""
    first = {_process(before, i): i for i in np.flatnonzero(np.isin(before.rank, wanted))}
    found: dict[str, set[int]] = {}
    for now in np.flatnonzero(np.isin(after.rank, wanted)):
        then = first.get(_process(after, now))
        if then is None:
            continue
        rank = int(after.rank[now])
        if after.fetching[now] != before.fetching[then]:
            found.setdefault("data is being fetched", set()).add(rank)
        old, new = _path(before, int(then)), _path(after, int(now))
        if after.role[now] in (Role.RANK, Role.LOADER_WORKER) and None not in (old, new) and old != new:
            found.setdefault("the stack changes", set()).add(rank)
        elif after.role[now] == Role.RANK and _threads_move(_sighting(before, then), _sighting(after, now)):
            found.setdefault("a thread that it waits for moves", set()).add(rank)
        known = min(after.io_bytes[now], before.io_bytes[then]) >= 0
        flow = known and after.io_bytes[now] - before.io_bytes[then] > io_noise_bytes
        if flow and (after.role[now] != Role.CHILD or _waits_for_children(after, rank)):
            found.setdefault(BYTES_MOVE, set()).add(rank)
    return found


def _threads_move(before: Sighting, after: Sighting) -> bool:
    """The main thread waits for a lock or a thread, and threads of the user's are elsewhere than they were."""
    if before.dumper != after.dumper or _others(before) == _others(after):
        return False
    doing = classify(after, default_signatures())
    return doing.kind in (Kind.LOCK, Kind.TEARDOWN) or doing.waits_on_user_line or doing.lock is True


def _others(sighting: Sighting) -> Counter[Path]:
    """Where the other threads are. Without a line of the user's a thread is a library's own: those run for ever."""
    frameworks = default_signatures().frameworks
    return Counter(
        _functions(thread)
        for thread in sighting.threads
        if not thread.is_main and innermost_user(thread.stack, frameworks) is not None
    )


def _waits_for_children(sample: Sample, rank: int) -> bool:
    """Whether the rank's own process waits for a child process. A metrics daemon is one that nobody waits for."""
    rows = np.flatnonzero((sample.rank == rank) & (sample.role == Role.RANK))
    sightings = [_sighting(sample, row) for row in rows]
    has_workers = bool(np.any((sample.rank == rank) & (sample.role == Role.LOADER_WORKER)))
    return any(_waits_for_child(sighting, has_workers) for sighting in sightings)


def _waits_for_child(sighting: Sighting, has_workers: bool) -> bool:
    doing = classify(sighting, default_signatures())
    if doing.kind in (Kind.SUBPROCESS, Kind.BUILDING) or doing.posture in (Posture.CHILD, Posture.PIPE):
        return True
    if (
        doing.kind is Kind.DATA_LOADING
    ):  # of loader workers, if there are any; else a library maps with its own pool
        return not has_workers
    in_pool = (_POOL_THREAD.search(frame.file) for thread in sighting.threads for frame in thread.stack)
    return doing.kind is Kind.LOCK and any(in_pool)


def _process(sample: Sample, row: np.intp) -> tuple[int, int, int, int]:
    """Which process a row is of: a pid alone repeats across hosts."""
    return int(sample.rank[row]), int(sample.role[row]), int(sample.index[row]), int(sample.pid[row])


def _sighting(sample: Sample, row: int | np.intp) -> Sighting:
    return sample.sightings[int(sample.sighting[row])]


def _path(sample: Sample, row: int) -> Path | None:
    """The functions of the main thread, without lines; None when it could not be read, which is no change."""
    main = _sighting(sample, row).main
    return _functions(main) if main is not None and main.stack else None


def _functions(thread: Thread) -> Path:
    return tuple((frame.function, frame.file) for frame in thread.stack if not is_probe(frame))


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_ranks(ranks)}"
