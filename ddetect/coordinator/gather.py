"""Many nodes' looks -> one. Names that nodes share (groups, calls, frames) become one each.

Enters: looks as the nodes took them. Leaves: one look over the whole job. Never here: gRPC, clocks, judging.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ddetect.model import Look, Unread
from ddetect.model.tables import join, without_ranks


def join_looks(parts: Sequence[Look], unread: Iterable[Unread] = ()) -> Look:
    """What all nodes saw at one instant, with names made common; `unread` is what no node told."""
    joined = join(Look, parts)
    return replace(joined, unread=(*joined.unread, *unread))


def look_without(look: Look, ranks: set[int]) -> Look:
    """What a node saw, but for these ranks: another node has told of them since."""
    if not ranks:
        return look
    told = [
        replace(item, ranks=tuple(rank for rank in item.ranks if rank not in ranks)) for item in look.unread
    ]
    return replace(without_ranks(look, ranks), unread=tuple(item for item in told if item.ranks))
