"""Snapshots of schema 1, as ddetect wrote them until November 2026: read, never written.

Enters: the chunks of such a file. Leaves: a Snapshot of today. There the collectives of the newest look stood beside
the samples; older looks had none. Never here: anything that is still written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from ddetect import model
from ddetect.model.tables import check, shape_of
from ddetect.wire.header import snapshot_from_header
from ddetect.wire.v1 import schema1_pb2
from ddetect.wire.values import call_from, frame_from, group_from, sightings_from, unread_from

Shaped = TypeVar("Shaped")
_CALLED = {"call": "signature"}  # columns that had another name


def snapshot_from(chunks: Iterable[bytes]) -> model.Snapshot:
    """The snapshot of these chunks. Raises ValueError, IndexError or DecodeError for what makes no sense."""
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for raw in chunks:
        chunk = schema1_pb2.SnapshotChunk.FromString(raw)
        name = chunk.WhichOneof("part")
        if name is not None:
            parts[name].append(getattr(chunk, name))
    if not parts["header"] or not parts["collectives"]:
        raise ValueError("a part is missing")
    header, shared = parts["header"][0], parts["collectives"][0]
    comms = model.Comms(
        groups=tuple(map(group_from, shared.groups)),
        calls=tuple(map(call_from, shared.signatures)),
        frames=tuple(map(frame_from, shared.frames)),
        progress=_table(model.Progress, parts["progress"]),
        ops=_table(model.Ops, parts["ops"]),
        p2p=_table(model.OpenP2P, parts["p2p"]),
    )
    looks = [model.Look(sample=_sample(sample)) for sample in parts["sample"]] or [model.Look()]
    looks[-1] = replace(looks[-1], comms=comms, unread=unread_from(header.unread))
    nodes = tuple(parts["roster"][0].nodes) if parts["roster"] else ()
    for look in looks:
        check(look)
    return replace(
        snapshot_from_header(header),
        roster=_table(model.Roster, parts["roster"], nodes=nodes),
        beats=_table(model.Beats, parts["beats"]),
        looks=tuple(looks),
    )


def _sample(message: schema1_pb2.Sample) -> model.Sample:
    return _table(model.Sample, [message], sightings=sightings_from(message.sightings, message.frames))


def _table(kind: type[Shaped], messages: Sequence[Message], **lists: Any) -> Shaped:
    """A table of one or more messages; a column that schema 1 did not have gets its fill."""
    columns: dict[str, Any] = {}
    for column in shape_of(kind).columns:
        name = _CALLED.get(column.name, column.name)
        if all(name in message.DESCRIPTOR.fields_by_name for message in messages):
            numbers = [np.asarray(getattr(message, name)) for message in messages]
            columns[column.name] = np.concatenate(numbers) if numbers else np.empty(0)
    return kind(**columns, **lists)
