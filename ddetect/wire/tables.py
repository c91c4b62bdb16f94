"""A model's table <-> its packed columns. Enters: a table or a `Table` message. Leaves: the other.

All numbers of a table are one piece of bytes, read with one `np.frombuffer`; its columns are views of it.
Never here: what a column means; lists that columns point into (bundles.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from ddetect.model.tables import shape_of
from ddetect.wire.v1 import snapshot_pb2

Shaped = TypeVar("Shaped")
_WHOLE, _REAL = np.dtype("<i8"), np.dtype("<f8")


def pack(table: Any, rows: slice = slice(None)) -> snapshot_pb2.Table:
    """The columns of a table, or of some of its rows."""
    known = shape_of(type(table)).columns
    packed = [getattr(table, column.name)[rows].astype(_WHOLE if column.whole else _REAL) for column in known]
    return snapshot_pb2.Table(
        rows=len(packed[0]),
        columns=[column.name for column in known],
        numbers=b"".join(column.tobytes() for column in packed),
    )


def unpack(kind: type[Any], messages: Sequence[snapshot_pb2.Table]) -> dict[str, Any]:
    """The columns of one or more messages: keyword arguments for the table. Raises ValueError where sizes differ."""
    parts = [_columns(kind, message) for message in messages]
    if len(parts) == 1:
        return parts[0]
    names = {name for one in parts for name in one}
    if any(set(one) != names for one in parts):
        raise ValueError(f"the parts of {kind.__name__} have different columns")
    return {name: np.concatenate([one[name] for one in parts]) for name in names}


def table_from(kind: type[Shaped], message: snapshot_pb2.Table) -> Shaped:
    """A table that has nothing but columns."""
    return kind(**unpack(kind, [message]))


def _columns(kind: type[Any], message: snapshot_pb2.Table) -> dict[str, Any]:
    rows, names = message.rows, list(message.columns)
    if len(message.numbers) != 8 * rows * len(names):
        raise ValueError(
            f"{kind.__name__}: {len(message.numbers)} bytes are not {len(names)} columns of {rows}"
        )
    numbers = np.frombuffer(message.numbers, _WHOLE).reshape(len(names), rows)
    at = {name: number for number, name in enumerate(names)}
    return {
        column.name: numbers[at[column.name]] if column.whole else numbers[at[column.name]].view(_REAL)
        for column in shape_of(kind).columns
        if column.name in at
    }
