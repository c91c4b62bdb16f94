"""Columns of a model table <-> the repeated numbers of its protobuf message, by field name.

Enters: a dataclass of columns or its message. Leaves: the other. Never here: what a column means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from ddetect.model import UNKNOWN

Table = TypeVar("Table")


def column_names(table: type[Any]) -> tuple[str, ...]:
    """The fields of a table that are columns."""
    return tuple(item.name for item in fields(table) if str(item.type) in ("Ints", "Floats"))


def fill(message: Message, table: Any, rows: slice = slice(None)) -> None:
    """Copy a table's columns into its message."""
    for name in column_names(type(table)):
        getattr(message, name).extend(getattr(table, name)[rows].tolist())


def columns(table: type[Any], messages: Sequence[Message]) -> dict[str, Any]:
    """The columns of one or more messages, joined: keyword arguments for the table."""
    return {
        name: np.concatenate([np.asarray(getattr(message, name)) for message in messages])
        if messages
        else np.empty(0)
        for name in column_names(table)
    }


def table_from(table: type[Table], *messages: Message) -> Table:
    """Build a table that has nothing but columns."""
    return table(**columns(table, messages))


def check_indices(seen: Any) -> None:
    """Raise ValueError where a row of a Snapshot or of an Evidence points at something that is not there."""
    samples = getattr(seen, "samples", None) or (getattr(seen, "sample", None),)
    limits = [(sample.sighting, len(sample.sightings), 0) for sample in samples if sample is not None]
    groups, frames = len(seen.groups), len(seen.frames)
    limits += [
        (seen.progress.group, groups, 0),
        (seen.p2p.group, groups, UNKNOWN),
        (seen.ops.group, groups, UNKNOWN),  # a call that only a stack shows, in a group that it does not
    ]
    limits += [(seen.ops.signature, len(seen.signatures), 0), (seen.ops.frame, frames, UNKNOWN)]
    for column, size, least in limits:
        if len(column) and not (least <= column.min() and column.max() < size):
            raise ValueError("a row points at nothing")
