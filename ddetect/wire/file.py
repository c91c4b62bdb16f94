"""The .ddsnap file: magic, version, then compressed chunks with a length, a checksum and a limit each.

Enters: a Snapshot or a path. Leaves: the other. A file cut off anywhere says so: the last chunk counts the
others. Never here: one giant message; judging.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import zstandard
from google.protobuf.message import DecodeError

from ddetect import model
from ddetect.errors import BadSnapshot
from ddetect.model.tables import shape_of
from ddetect.wire import schema1
from ddetect.wire.bundles import parts_pb, read_parts
from ddetect.wire.header import header_pb, snapshot_from_header
from ddetect.wire.v1 import snapshot_pb2

MAGIC = b"DDSNAP\r\n"  # the line end shows a transfer in text mode at once
SCHEMA = 2
_HEAD = struct.Struct("<8sI")
_CHUNK = struct.Struct("<II")  # compressed length, CRC-32 of the compressed bytes
_CHUNK_LIMIT = 64 * 1024 * 1024
_ROWS = 65_536
_END_AT_MOST = 64  # bytes of the last chunk, compressed
_MOST_LOOKS = 64


def write_snapshot(path: Path, snapshot: model.Snapshot) -> None:
    """Write a snapshot, whole or not at all."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(dump_snapshot(snapshot))
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def dump_snapshot(snapshot: model.Snapshot) -> bytes:
    """A snapshot as the bytes of a .ddsnap file."""
    compress = zstandard.ZstdCompressor(level=3).compress
    parts = [_HEAD.pack(MAGIC, SCHEMA)]
    chunks = 0
    for chunk in _chunks(snapshot):
        packed = compress(chunk.SerializeToString())
        parts.append(_CHUNK.pack(len(packed), zlib.crc32(packed)) + packed)
        chunks += 1
    packed = compress(
        snapshot_pb2.SnapshotChunk(end=snapshot_pb2.SnapshotEnd(chunks=chunks)).SerializeToString()
    )
    parts.append(_CHUNK.pack(len(packed), zlib.crc32(packed)) + packed)
    return b"".join(parts)


def read_snapshot(path: Path) -> model.Snapshot:
    """Read a snapshot. Raises BadSnapshot, with what to do, for a file that is none."""
    try:
        with open(path, "rb") as file:
            return load_snapshot(file, str(path))
    except OSError as error:
        raise BadSnapshot(
            f"cannot read {path}: {error.strerror or error}",
            hint="Give the snapshot.ddsnap of an incident folder, or the folder itself.",
        ) from error


def load_snapshot(file: BinaryIO, name: str, kind: type[model.Snapshot] = model.Snapshot) -> model.Snapshot:
    """Read a snapshot from an open file called `name` in messages; `kind` may declare more tables."""
    schema = _read_head(file, name)
    chunks = list(_read_chunks(file, name))
    try:
        if schema == 1:
            return schema1.snapshot_from(chunks)
        return _snapshot_from([snapshot_pb2.SnapshotChunk.FromString(raw) for raw in chunks], kind)
    except DecodeError as error:
        raise BadSnapshot(f"{name} is damaged: {error}") from error
    except (ValueError, IndexError) as error:
        raise BadSnapshot(f"{name} is damaged: {error}") from error


def _chunks(snapshot: model.Snapshot) -> Iterator[snapshot_pb2.SnapshotChunk]:
    yield snapshot_pb2.SnapshotChunk(header=header_pb(snapshot))
    for part in shape_of(type(snapshot)).parts:
        for data in parts_pb(getattr(snapshot, part.name), part.name, _ROWS):
            yield snapshot_pb2.SnapshotChunk(data=data)
    for number, look in enumerate(snapshot.looks):
        for data in parts_pb(look, f"looks.{number}", _ROWS):
            yield snapshot_pb2.SnapshotChunk(data=data)


def _read_head(file: BinaryIO, name: str) -> int:
    """The schema that the file is of."""
    head = file.read(_HEAD.size)
    if not head.startswith(MAGIC[:6]) or len(head) < _HEAD.size:
        raise BadSnapshot(f"{name} is not a ddetect snapshot")
    magic, schema = _HEAD.unpack(head)
    if magic != MAGIC:
        raise BadSnapshot(f"{name} was changed in transfer (line ends)", hint="Copy it in binary mode.")
    if schema > SCHEMA:
        raise BadSnapshot(
            f"{name} was written by a newer ddetect (schema {schema}; this one reads up to {SCHEMA})",
            hint="Upgrade: pip install --upgrade ddetect",
        )
    return int(schema)


def _read_chunks(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Every chunk but the last, which counts the others."""
    expand = zstandard.ZstdDecompressor()
    chunks = 0
    while prefix := file.read(_CHUNK.size):
        if len(prefix) < _CHUNK.size:
            raise BadSnapshot(f"{name} is cut off")
        length, checksum = _CHUNK.unpack(prefix)
        if length > _CHUNK_LIMIT:
            raise BadSnapshot(f"{name} is damaged: a part claims {length} bytes")
        packed = file.read(length)
        if len(packed) < length:
            raise BadSnapshot(f"{name} is cut off")
        if zlib.crc32(packed) != checksum:
            raise BadSnapshot(f"{name} is damaged: a checksum does not match")
        try:
            raw = expand.decompress(packed, max_output_size=4 * _CHUNK_LIMIT)
            end = snapshot_pb2.SnapshotChunk.FromString(raw) if length <= _END_AT_MOST else None
        except (zstandard.ZstdError, DecodeError) as error:
            raise BadSnapshot(f"{name} is damaged: {error}") from error
        if end is not None and end.WhichOneof("part") == "end":
            if end.end.chunks != chunks:
                raise BadSnapshot(f"{name} is damaged: {chunks} of its {end.end.chunks} parts are there")
            return
        chunks += 1
        yield raw
    raise BadSnapshot(f"{name} is cut off after {chunks} parts")


def _snapshot_from(chunks: list[snapshot_pb2.SnapshotChunk], kind: type[model.Snapshot]) -> model.Snapshot:
    header = next((chunk.header for chunk in chunks if chunk.HasField("header")), None)
    if header is None:
        raise ValueError("a part is missing")
    by_place: defaultdict[str, list[snapshot_pb2.Part]] = defaultdict(list)
    for chunk in chunks:
        if chunk.HasField("data"):
            place, _, inner = chunk.data.path.partition(".")
            if place == "looks":
                number, _, inner = inner.partition(".")
                place = f"looks.{number}"
            chunk.data.path = inner
            by_place[place].append(chunk.data)
    tables = {part.name: read_parts(part.kind, by_place[part.name]) for part in shape_of(kind).parts}
    looks = tuple(read_parts(model.Look, by_place[f"looks.{number}"]) for number in range(_looks(header)))
    return replace(snapshot_from_header(header, kind), **tables, looks=looks)


def _looks(header: snapshot_pb2.SnapshotHeader) -> int:
    if header.looks > _MOST_LOOKS:
        raise ValueError(f"it claims {header.looks} looks")
    return header.looks
