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
from pathlib import Path
from typing import BinaryIO

import zstandard
from google.protobuf.message import DecodeError, Message

from ddetect import model
from ddetect.errors import BadSnapshot
from ddetect.wire import codec
from ddetect.wire.tables import check_indices, fill, table_from
from ddetect.wire.v1 import snapshot_pb2

MAGIC = b"DDSNAP\r\n"  # the line end shows a transfer in text mode at once
SCHEMA = 1
_HEAD = struct.Struct("<8sI")
_CHUNK = struct.Struct("<II")  # compressed length, CRC-32 of the compressed bytes
_CHUNK_LIMIT = 64 * 1024 * 1024
_ROWS = 65_536


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


def load_snapshot(file: BinaryIO, name: str) -> model.Snapshot:
    """Read a snapshot from an open file called `name` in messages."""
    parts: dict[str, list[Message]] = defaultdict(list)
    chunks = 0
    for chunk in _read_chunks(file, name):
        kind = chunk.WhichOneof("part")
        if kind == "end":
            if chunk.end.chunks != chunks:
                raise BadSnapshot(f"{name} is damaged: {chunks} of its {chunk.end.chunks} parts are there")
            return _snapshot_from(parts, name)
        chunks += 1
        if kind is not None:  # a part that a later ddetect added within this schema
            parts[kind].append(getattr(chunk, kind))
    raise BadSnapshot(f"{name} is cut off after {chunks} parts")


def _chunks(snapshot: model.Snapshot) -> Iterator[snapshot_pb2.SnapshotChunk]:
    chunk = snapshot_pb2.SnapshotChunk
    settings = snapshot.settings
    yield chunk(
        header=snapshot_pb2.SnapshotHeader(
            job=snapshot.job,
            attempt=snapshot.attempt,
            world_size=snapshot.world_size,
            framework=snapshot.framework,
            taken_at_unix_ns=snapshot.taken_at_unix_ns,
            stalled_for_s=snapshot.stalled_for_s,
            stage=snapshot.stage.value,
            settings=snapshot_pb2.Settings(
                patience_s=settings.patience_s,
                floor_s=settings.floor_s,
                startup_s=settings.startup_s,
                samples=settings.samples,
                sample_gap_s=settings.sample_gap_s,
            ),
            limits=[
                snapshot_pb2.Limit(phase=int(limit.phase), longest_s=limit.longest_s, seen=limit.seen)
                for limit in snapshot.limits
            ],
            unread=codec.unread_pb(snapshot.unread),
            gone=codec.gone_pb(snapshot.gone),
        )
    )
    for at in range(0, len(snapshot.roster), _ROWS):
        roster = snapshot_pb2.Roster(nodes=snapshot.roster.nodes)
        fill(roster, snapshot.roster, slice(at, at + _ROWS))
        yield chunk(roster=roster)
    for sample in snapshot.samples:
        yield chunk(sample=codec.sample_pb(sample))
    yield chunk(collectives=codec.collectives_pb(snapshot.groups, snapshot.signatures, snapshot.frames))
    for kind in ("beats", "progress", "ops", "p2p"):
        table = getattr(snapshot, kind)
        for at in range(0, len(table), _ROWS):
            part = chunk()
            fill(getattr(part, kind), table, slice(at, at + _ROWS))
            yield part


def _read_chunks(file: BinaryIO, name: str) -> Iterator[snapshot_pb2.SnapshotChunk]:
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
    expand = zstandard.ZstdDecompressor()
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
            yield snapshot_pb2.SnapshotChunk.FromString(raw)
        except (zstandard.ZstdError, DecodeError) as error:
            raise BadSnapshot(f"{name} is damaged: {error}") from error


def _snapshot_from(parts: dict[str, list[Message]], name: str) -> model.Snapshot:
    try:
        header = parts["header"][0]
        collectives = parts["collectives"][0]
    except IndexError:
        raise BadSnapshot(f"{name} is damaged: a part is missing") from None
    assert isinstance(header, snapshot_pb2.SnapshotHeader)
    assert isinstance(collectives, snapshot_pb2.Collectives)
    try:
        snapshot = model.Snapshot(
            job=header.job,
            attempt=header.attempt,
            world_size=header.world_size,
            framework=header.framework,
            taken_at_unix_ns=header.taken_at_unix_ns,
            stalled_for_s=header.stalled_for_s,
            stage=model.Stage(header.stage),
            roster=codec.roster_from(*parts["roster"]),  # type: ignore[arg-type]
            beats=table_from(model.Beats, *parts["beats"]),
            samples=tuple(codec.sample_from(sample) for sample in parts["sample"]),  # type: ignore[arg-type]
            groups=codec.groups_from(collectives),
            signatures=codec.signatures_from(collectives),
            frames=tuple(codec.frame_from(frame) for frame in collectives.frames),
            progress=table_from(model.Progress, *parts["progress"]),
            ops=table_from(model.Ops, *parts["ops"]),
            p2p=table_from(model.OpenP2P, *parts["p2p"]),
            gone=codec.gone_from(header.gone),
            unread=codec.unread_from(header.unread),
            limits=tuple(model.Limit(model.Phase(x.phase), x.longest_s, x.seen) for x in header.limits),
            settings=model.Settings(
                patience_s=header.settings.patience_s,
                floor_s=header.settings.floor_s,
                startup_s=header.settings.startup_s,
                samples=header.settings.samples,
                sample_gap_s=header.settings.sample_gap_s,
            ),
        )
        check_indices(snapshot)
        return snapshot
    except (ValueError, IndexError) as error:
        raise BadSnapshot(f"{name} is damaged: {error}") from error
