"""Has a culprit moved between the looks? A Snapshot and ranks enter, a sentence leaves: "" means nothing moved.

CPU time is not motion (waiters spin), and neither is another line of the same functions: a busy loop has those too.
Never here: who the culprits are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ddetect.correlate.where import is_probe
from ddetect.model import Ints, Role, Sample, Sighting, Snapshot
from ddetect.rankset import format_ranks

IO_NOISE_BYTES = 65536
"""Less than this between two looks is logging and our own questions, not a checkpoint."""


BYTES_MOVE = "bytes are read or written"


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
        known = min(after.io_bytes[now], before.io_bytes[then]) >= 0
        if known and after.io_bytes[now] - before.io_bytes[then] > io_noise_bytes:
            found.setdefault(BYTES_MOVE, set()).add(rank)
    return found


def _process(sample: Sample, row: np.intp) -> tuple[int, int, int, int]:
    """Which process a row is of: a pid alone repeats across hosts."""
    return int(sample.rank[row]), int(sample.role[row]), int(sample.index[row]), int(sample.pid[row])


def _path(sample: Sample, row: int) -> tuple[tuple[str, str], ...] | None:
    """The functions of the main thread, without lines; None when it could not be read, which is no change."""
    sighting: Sighting = sample.sightings[int(sample.sighting[row])]
    main = sighting.main
    if main is None or not main.stack:
        return None
    return tuple((frame.function, frame.file) for frame in main.stack if not is_probe(frame))


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_ranks(ranks)}"
