"""Many nodes' evidence -> one Snapshot. Names that nodes share (groups, signatures, frames) become one each.

Enters: rosters, beats and evidence as the nodes told them. Leaves: tables over the whole job.
Never here: gRPC, clocks, judging.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ddetect.messages import Evidence
from ddetect.model import (
    UNKNOWN,
    Beats,
    Frame,
    Group,
    Ints,
    OpenP2P,
    Ops,
    Progress,
    Roster,
    Sample,
    Sighting,
    Signature,
    Unread,
)

Value = TypeVar("Value", bound=Hashable)
Table = TypeVar("Table")
_AGES = ("step_age_s", "activity_age_s", "phase_age_s", "tick_age_s")


class Interned(Generic[Value]):
    """Each value once, in order of first sight."""

    def __init__(self) -> None:
        self._index: dict[Value, int] = {}

    def map(self, values: Iterable[Value]) -> Ints:
        """Where each value stands; the last entry serves UNKNOWN."""
        index = [self._index.setdefault(value, len(self._index)) for value in values]
        return np.array([*index, UNKNOWN], dtype=np.int64)

    def values(self) -> tuple[Value, ...]:
        """All of them."""
        return tuple(self._index)


@dataclass(frozen=True, slots=True)
class Look:
    """All nodes at one instant, as tables over the job."""

    sample: Sample
    groups: tuple[Group, ...]
    signatures: tuple[Signature, ...]
    frames: tuple[Frame, ...]
    progress: Progress
    ops: Ops
    p2p: OpenP2P
    unread: tuple[Unread, ...]


def join_tables(table: type[Table], parts: Sequence[Table], **shared: Any) -> Table:
    """Put the rows of several tables under each other."""
    names = [item.name for item in fields(table) if str(item.type) in ("Ints", "Floats")]  # type: ignore[arg-type]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) if parts else [] for name in names
    }
    return table(**(joined | shared))


def kept_rows(table: Table, keep: npt.NDArray[np.bool_]) -> Table:
    """The same table with these rows only."""
    columns = {item.name: getattr(table, item.name) for item in fields(table)}  # type: ignore[arg-type]
    return type(table)(
        **{name: value[keep] if isinstance(value, np.ndarray) else value for name, value in columns.items()}
    )


def join_rosters(rosters: Sequence[Roster]) -> Roster:
    """One roster over all nodes."""
    nodes = tuple(name for roster in rosters for name in roster.nodes)
    joined = join_tables(Roster, rosters, nodes=nodes)
    index = np.repeat(np.arange(len(rosters)), [len(roster) for roster in rosters])
    return replace(joined, node=index)


def aged(beats: Beats, by_s: float) -> Beats:
    """The same beats, seen `by_s` later: every age has grown."""
    columns = {item.name: getattr(beats, item.name) for item in fields(beats)}
    return Beats(**(columns | {name: columns[name] + by_s for name in _AGES}))


def without_ranks(evidence: Evidence, ranks: set[int]) -> Evidence:
    """What a node saw, but for these ranks: another node has told of them since."""
    if not ranks:
        return evidence
    gone = list(ranks)
    tables = {name: getattr(evidence, name) for name in ("sample", "progress", "ops", "p2p")}
    kept: dict[str, Any] = {
        name: kept_rows(table, ~np.isin(table.rank, gone)) for name, table in tables.items()
    }
    told = [
        replace(item, ranks=tuple(rank for rank in item.ranks if rank not in ranks))
        for item in evidence.unread
    ]
    return replace(evidence, **kept, unread=tuple(item for item in told if item.ranks))


def join_evidence(parts: Sequence[Evidence], unread: Iterable[Unread] = ()) -> Look:
    """What all nodes saw for one request, with names made common."""
    groups, signatures, frames = Interned[Group](), Interned[Signature](), Interned[Frame]()
    sightings = Interned[Sighting]()
    samples, progress, ops, p2p = [], [], [], []
    for part in parts:
        to_group, to_frame = groups.map(part.groups), frames.map(part.frames)
        to_signature, to_sighting = signatures.map(part.signatures), sightings.map(part.sample.sightings)
        samples.append(_moved(part.sample, sighting=to_sighting))
        progress.append(_moved(part.progress, group=to_group))
        ops.append(_moved(part.ops, group=to_group, signature=to_signature, frame=to_frame))
        p2p.append(_moved(part.p2p, group=to_group))
    return Look(
        sample=join_tables(Sample, samples, sightings=sightings.values()),
        groups=groups.values(),
        signatures=signatures.values(),
        frames=frames.values(),
        progress=join_tables(Progress, progress),
        ops=join_tables(Ops, ops),
        p2p=join_tables(OpenP2P, p2p),
        unread=(*(item for part in parts for item in part.unread), *unread),
    )


def _moved(table: Table, **maps: Ints) -> Table:
    """The same rows with some columns looked up in maps (UNKNOWN, -1, finds the last entry: itself)."""
    columns = {item.name: getattr(table, item.name) for item in fields(table)}  # type: ignore[arg-type]
    return type(table)(**(columns | {name: to[columns[name]] for name, to in maps.items()}))
