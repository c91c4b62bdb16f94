"""Ranks as people write them: "0-59,61-143".

Enters: ranks or their text. Leaves: the other. Never here: anything else.
"""

from __future__ import annotations

from collections.abc import Iterable

MOST_RANKS = 2**22


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
