"""What a table is: columns of numbers, lists of values that they point into, and bundles of both.

Enters: dataclasses whose fields are made with `ints`, `floats`, `values` and `part`. Leaves: what follows from that
alone: freezing, joining, keeping rows, growing ages, checking numbers, and (in ddetect.wire) packing. A column is so
written down once, where it is declared. Never here: what a column means to a rule; bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Shaped = TypeVar("Shaped")

UNKNOWN = -1
"""An integer that nobody told us: a rank, a root, an index."""

LANE_BITS = 32


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its numbers, what stands in it where nobody wrote it, and what its numbers are."""

    name: str
    whole: bool  # int64; else float64
    fill: float | None  # for rows that were written before this column was; None: it must be there
    age: bool  # seconds since something: it grows while nobody looks
    into: str  # the list that its numbers point into; empty: they point nowhere
    least: int  # the lowest such number: 0, or UNKNOWN where a row may point at nothing


@dataclass(frozen=True, slots=True)
class Inner:
    """A field of a bundle that holds a table or another bundle."""

    name: str
    kind: type[Any]


def ints(*, fill: float | None = None, into: str = "", optional: bool = False) -> Any:
    """Declare a column of whole numbers; with `into` they point into a list, or (`optional`) at nothing: UNKNOWN."""
    return _column(np.int64, fill, False, into, UNKNOWN if optional else 0)


def floats(*, fill: float | None = None, age: bool = False) -> Any:
    """Declare a column of real numbers."""
    return _column(np.float64, fill, age, "", 0)


def _column(dtype: type[Any], fill: float | None, age: bool, into: str, least: int) -> Any:
    about = {"column": (dtype is np.int64, fill, age, into, least)}
    return field(default_factory=lambda: np.empty(0, dtype), metadata=about)


def values(kind: type[Any]) -> Any:
    """Declare a list of values, each once, that columns point into (or that only stand there)."""
    return field(default=(), metadata={"values": kind})


def part(kind: type[Any]) -> Any:
    """Declare a table or a bundle inside a bundle; its columns may point into the lists around it."""
    return field(default_factory=kind, metadata={"part": kind})


@dataclass(frozen=True, slots=True)
class Shape:
    """What a dataclass declares: the columns of a table, the lists and parts of a bundle, each in its order."""

    columns: tuple[Column, ...]
    lists: dict[str, type[Any]]  # with the kind of their values
    parts: tuple[Inner, ...]


_shapes: dict[type[Any], Shape] = {}


def shape_of(kind: type[Any]) -> Shape:
    """The shape of a table or a bundle, found out once."""
    if kind not in _shapes:
        about = [(one.name, one.metadata) for one in fields(kind)]
        _shapes[kind] = Shape(
            tuple(Column(name, *said["column"]) for name, said in about if "column" in said),
            {name: said["values"] for name, said in about if "values" in said},
            tuple(Inner(name, said["part"]) for name, said in about if "part" in said),
        )
    return _shapes[kind]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, read-only. Rows about a member have its `rank` and, where it has several, its `lane`."""

    def __post_init__(self) -> None:
        freeze(self)

    def __len__(self) -> int:
        return len(getattr(self, shape_of(type(self)).columns[0].name))

    @cached_property
    def member(self) -> Ints:
        """Whom each row is about, as one number; UNKNOWN where the rank is."""
        mine: Any = self
        return member_keys(mine.rank, mine.lane)


def member_keys(rank: Ints, lane: Ints) -> Ints:
    """One number per member: its rank, and above that its lane. Where ranks have one lane it is the rank."""
    if not lane.any():
        return rank
    return np.where(rank < 0, UNKNOWN, rank | (np.maximum(lane, 0) << LANE_BITS))


def rank_of(member: int) -> int:
    """The rank of a member."""
    return member & ((1 << LANE_BITS) - 1) if member >= 0 else UNKNOWN


def lane_of(member: int) -> int:
    """The lane of a member: which of the replicas that share its process."""
    return member >> LANE_BITS if member >= 0 else UNKNOWN


def ranks_of(members: Ints) -> Ints:
    """The ranks of members."""
    return np.where(members < 0, UNKNOWN, members & ((1 << LANE_BITS) - 1))


# ---------------------------------------------------------------- what follows from the declaration


def freeze(table: Any) -> None:
    """Make every column an equally long read-only array; a column that is not there gets its `fill`."""
    known = shape_of(type(table)).columns
    arrays = {column.name: _frozen(getattr(table, column.name), column) for column in known}
    rows = max(map(len, arrays.values()), default=0)
    for column in known:
        array = arrays[column.name]
        if not len(array) and rows and column.fill is not None:
            array = _frozen([column.fill] * rows, column)
        if len(array) != rows:
            raise ValueError(f"{type(table).__name__}.{column.name} has {len(array)} rows, not {rows}")
        object.__setattr__(table, column.name, array)


def _frozen(numbers: Any, column: Column) -> Any:
    dtype = np.int64 if column.whole else np.float64
    if isinstance(numbers, np.ndarray) and numbers.dtype == dtype and not numbers.flags.writeable:
        return numbers
    array = np.array(numbers, dtype=dtype)
    array.flags.writeable = False
    return array


def keep_rows(table: Shaped, keep: Bools) -> Shaped:
    """The same table with these rows only."""
    return _with(
        table, {column.name: getattr(table, column.name)[keep] for column in shape_of(type(table)).columns}
    )


def older(table: Shaped, by_s: float) -> Shaped:
    """The same rows, seen `by_s` later: every age has grown."""
    grown = {
        column.name: getattr(table, column.name) + by_s
        for column in shape_of(type(table)).columns
        if column.age
    }
    return _with(table, grown)


def without_ranks(bundle: Shaped, ranks: Iterable[int]) -> Shaped:
    """A table, or a bundle of tables, without the rows of these ranks."""
    gone = list(ranks)
    changed: dict[str, Any] = {
        one.name: without_ranks(getattr(bundle, one.name), gone) for one in shape_of(type(bundle)).parts
    }
    if any(column.name == "rank" for column in shape_of(type(bundle)).columns):
        return keep_rows(_with(bundle, changed), ~np.isin(getattr(bundle, "rank"), gone))  # noqa: B009
    return _with(bundle, changed)


def join(kind: type[Shaped], several: Sequence[Any]) -> Shaped:
    """Several tables or bundles as one: rows under each other, equal values of their lists once."""
    return _join(kind, several, [{} for _ in several])


def _join(kind: type[Shaped], several: Sequence[Any], around: Sequence[dict[str, Ints]]) -> Shaped:
    joined: dict[str, Any] = {}
    maps = [dict(outer) for outer in around]
    for name in shape_of(kind).lists:
        index: dict[Hashable, int] = {}
        for one, to in zip(several, maps, strict=True):
            places = [index.setdefault(value, len(index)) for value in getattr(one, name)]
            to[name] = np.array([*places, UNKNOWN], np.int64)  # the last serves UNKNOWN, which is -1
        joined[name] = tuple(index)
    for column in shape_of(kind).columns:
        rows = [
            to[column.into][getattr(one, column.name)] if column.into else getattr(one, column.name)
            for one, to in zip(several, maps, strict=True)
        ]
        joined[column.name] = np.concatenate(rows) if rows else ()
    for inner in shape_of(kind).parts:
        joined[inner.name] = _join(inner.kind, [getattr(one, inner.name) for one in several], maps)
    return kind(**joined)


def check(bundle: Any, around: dict[str, int] | None = None) -> None:
    """Raise ValueError where a row points at something that is not there."""
    sizes = dict(around or {}) | {name: len(getattr(bundle, name)) for name in shape_of(type(bundle)).lists}
    for column in shape_of(type(bundle)).columns:
        numbers = getattr(bundle, column.name)
        if not column.into or not len(numbers):
            continue
        if numbers.min() < column.least or numbers.max() >= sizes[column.into]:
            raise ValueError(f"a row of {type(bundle).__name__} points at nothing in {column.into}")
    for inner in shape_of(type(bundle)).parts:
        check(getattr(bundle, inner.name), sizes)


def _with(table: Shaped, changed: dict[str, Any]) -> Shaped:
    """`dataclasses.replace` of fewer checks."""
    if not changed:
        return table
    every = {one.name: getattr(table, one.name) for one in fields(table)}  # type: ignore[arg-type]
    return type(table)(**(every | changed))
