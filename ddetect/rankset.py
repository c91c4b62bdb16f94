"""Ranks as people write them: "0-59,61-143"; and members, which are ranks with a lane.

Enters: ranks or their text. Leaves: the other. Never here: anything else.
"""

from __future__ import annotations

from collections.abc import Iterable

from ddetect.model.tables import LANE_BITS, lane_of, rank_of

MOST_RANKS = 2**22
MOST_LANES = 2**16


def format_ranks(ranks: Iterable[int]) -> str:
    """Fold ranks into ranges: (0, 1, 3) is "0-1,3"."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts: list[str] = []
    for low, high in runs:
        if high == low:
            parts.append(str(low))
        else:
            parts.append(f"{low}-{high}")
    return ",".join(parts)


def parse_ranks(text: str) -> tuple[int, ...]:
    """Unfold "0-2,5" into (0, 1, 2, 5). Raises ValueError on anything else."""
    ranks: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        low, dash, high = part.partition("-")
        first, last = int(low), int(high if dash else low)
        if last < first:
            raise ValueError(f"{part!r} is not a range of ranks")
        if last >= MOST_RANKS:
            raise ValueError(f"{part!r} names more ranks than any job has")
        ranks.update(range(first, last + 1))
    return tuple(sorted(ranks))


def format_members(members: Iterable[int]) -> str:
    """Fold members into ranges of ranks, lane by lane: "0-3" for lane 0, "0-3/1" for lane 1."""
    by_lane: dict[int, list[int]] = {}
    for member in members:
        by_lane.setdefault(lane_of(member), []).append(rank_of(member))
    parts = []
    for lane, ranks in sorted(by_lane.items()):
        folded = format_ranks(ranks)
        parts.append(folded if lane == 0 else ",".join(f"{run}/{lane}" for run in folded.split(",")))
    return ",".join(parts)


def parse_members(text: str) -> tuple[int, ...]:
    """Unfold what `format_members` wrote. Raises ValueError on anything else."""
    members: set[int] = set()
    for run in filter(None, (piece.strip() for piece in text.split(","))):
        ranks, slash, lane = run.partition("/")
        number = int(lane) if slash else 0
        if not 0 <= number < MOST_LANES:
            raise ValueError(f"{run!r} is of a lane that no process has")
        members.update(rank | number << LANE_BITS for rank in parse_ranks(ranks))
    return tuple(sorted(members))
