"""Tables with the lists that they point into <-> `Bundle` messages. What a bundle holds, its dataclass declares.

Enters: a dataclass of tables, lists and bundles (see ddetect.model.tables), or its message. Leaves: the other; what
points at nothing is refused. Never here: a name of a table or of a column; limits of a file (file.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ddetect.model.tables import check, shape_of
from ddetect.wire.tables import pack, unpack
from ddetect.wire.v1 import snapshot_pb2
from ddetect.wire.values import LISTS

Shaped = TypeVar("Shaped")


def bundle_pb(bundle: Any) -> snapshot_pb2.Bundle:
    """Encode a bundle."""
    return snapshot_pb2.Bundle(parts=parts_pb(bundle))


def bundle_from(kind: type[Shaped], message: snapshot_pb2.Bundle) -> Shaped:
    """Decode a bundle. Raises ValueError or IndexError for one that makes no sense."""
    return read_parts(kind, message.parts)


def parts_pb(bundle: Any, path: str = "", most_rows: int | None = None) -> Iterator[snapshot_pb2.Part]:
    """A bundle as a part per list and table, a table in several parts if it has more than `most_rows` rows."""
    kind = type(bundle)
    for name, of in shape_of(kind).lists.items():
        part = snapshot_pb2.Part(path=_below(path, name))
        LISTS[of].fill(getattr(bundle, name), part.values)
        yield part
    if shape_of(kind).columns:
        step = most_rows or max(1, len(bundle))
        for at in range(0, max(1, len(bundle)), step):
            yield snapshot_pb2.Part(path=path, table=pack(bundle, slice(at, at + step)))
    for inner in shape_of(kind).parts:
        yield from parts_pb(getattr(bundle, inner.name), _below(path, inner.name), most_rows)


def read_parts(kind: type[Shaped], parts: Iterable[snapshot_pb2.Part]) -> Shaped:
    """The bundle that these parts are of. Parts that this kind has no place for are passed over: a later ddetect's."""
    tables: defaultdict[str, list[snapshot_pb2.Table]] = defaultdict(list)
    lists: dict[str, snapshot_pb2.Values] = {}
    for part in parts:
        if part.HasField("table"):
            tables[part.path].append(part.table)
        else:
            lists[part.path] = part.values
    bundle: Shaped = _read(kind, "", tables, lists)
    check(bundle)
    return bundle


def _read(
    kind: type[Any],
    path: str,
    tables: dict[str, list[snapshot_pb2.Table]],
    lists: dict[str, snapshot_pb2.Values],
) -> Any:
    given: dict[str, Any] = unpack(kind, tables[path]) if path in tables else {}
    for name, of in shape_of(kind).lists.items():
        written = lists.get(_below(path, name))
        given[name] = LISTS[of].read(written) if written is not None else ()
    for inner in shape_of(kind).parts:
        given[inner.name] = _read(inner.kind, _below(path, inner.name), tables, lists)
    return kind(**given)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
