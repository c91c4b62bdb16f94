"""Has a culprit moved between the looks? A Snapshot and ranks enter, a sentence leaves: "" means nothing moved.

CPU time is not motion (waiters spin), and neither is another line of the same functions: a busy loop has those too.
Never here: who the culprits are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ddetect.correlate.where import is_probe
from ddetect.model import Role, Sample, Sighting, Snapshot
from ddetect.rankset import format_ranks

IO_NOISE_BYTES = 65536
"""Less than this between two looks is logging and our own questions, not a checkpoint."""


def moved(snapshot: Snapshot, ranks: Iterable[int]) -> str:
    """What moved among these ranks between the first look and the last: fetches, stacks, bytes. "" if nothing did."""
    wanted = np.unique(np.fromiter(ranks, np.int64))
    if len(snapshot.samples) < 2 or not len(wanted):
        return ""
    parts = []
    for before, after in zip(snapshot.samples, snapshot.samples[1:], strict=False):
        parts += _between(before, after, wanted)
    return "; ".join(dict.fromkeys(parts))


def _between(before: Sample, after: Sample, wanted: np.typing.NDArray[np.int64]) -> list[str]:
    """Compare two looks, process by process."""
    first = {_process(before, i): i for i in np.flatnonzero(np.isin(before.rank, wanted))}
    stacks, fetches, bytes_moved = set(), set(), set()
    for now in np.flatnonzero(np.isin(after.rank, wanted)):
        then = first.get(_process(after, now))
        if then is None:
            continue
        rank = int(after.rank[now])
        if after.fetching[now] != before.fetching[then]:
            fetches.add(rank)
        known = min(after.io_bytes[now], before.io_bytes[then]) >= 0
        if known and after.io_bytes[now] - before.io_bytes[then] > IO_NOISE_BYTES:
            bytes_moved.add(rank)
        if after.role[now] in (Role.RANK, Role.LOADER_WORKER) and _path(after, int(now)) != _path(
            before, int(then)
        ):
            stacks.add(rank)
    found = []
    if fetches:
        found.append(f"data is being fetched on {_ranks(fetches)}")
    if stacks:
        found.append(f"the stack changes on {_ranks(stacks)}")
    if bytes_moved:
        found.append(f"bytes are read or written on {_ranks(bytes_moved)}")
    return found


def _process(sample: Sample, row: np.intp) -> tuple[int, int, int, int]:
    """Which process a row is of: a pid alone repeats across hosts."""
    return int(sample.rank[row]), int(sample.role[row]), int(sample.index[row]), int(sample.pid[row])


def _path(sample: Sample, row: int) -> tuple[tuple[str, str], ...] | None:
    """The functions of the main thread, without lines; None equals everything that could not be read."""
    sighting: Sighting = sample.sightings[int(sample.sighting[row])]
    main = sighting.main
    if main is None:
        return None
    return tuple((frame.function, frame.file) for frame in main.stack if not is_probe(frame))


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_ranks(ranks)}"
