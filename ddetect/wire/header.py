"""The head of a snapshot <-> protobuf: what it is of, settings, limits, who is gone. Tables and looks come behind it.

Enters: a Snapshot or a header. Leaves: the other. Never here: tables (bundles.py), files.
"""

from __future__ import annotations

from ddetect import model
from ddetect.wire.v1 import snapshot_pb2
from ddetect.wire.values import gone_from, gone_pb

_USUAL = model.Settings()


def header_pb(snapshot: model.Snapshot) -> snapshot_pb2.SnapshotHeader:
    """Encode the head of a snapshot."""
    settings = snapshot.settings
    return snapshot_pb2.SnapshotHeader(
        job=snapshot.job,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        framework=snapshot.framework,
        taken_at_unix_ns=snapshot.taken_at_unix_ns,
        stalled_for_s=snapshot.stalled_for_s,
        stage=snapshot.stage.value,
        phase=int(snapshot.phase),
        still_s=snapshot.still_s,
        settings=snapshot_pb2.Settings(
            patience_s=settings.patience_s,
            floor_s=settings.floor_s,
            startup_s=settings.startup_s,
            samples=settings.samples,
            sample_gap_s=settings.sample_gap_s,
            signatures=settings.signatures,
            startup_patience_s=settings.startup_patience_s,
            note_after_s=settings.note_after_s,
        ),
        limits=[
            snapshot_pb2.Limit(
                phase=int(limit.phase), longest_s=limit.longest_s, seen=limit.seen, place=limit.place
            )
            for limit in snapshot.limits
        ],
        gone=gone_pb(snapshot.gone),
        looks=len(snapshot.looks),
    )


def snapshot_from_header(
    header: snapshot_pb2.SnapshotHeader, kind: type[model.Snapshot] = model.Snapshot
) -> model.Snapshot:
    """A snapshot that has its head only."""
    return kind(
        job=header.job,
        attempt=header.attempt,
        world_size=header.world_size,
        framework=header.framework,
        taken_at_unix_ns=header.taken_at_unix_ns,
        stalled_for_s=header.stalled_for_s,
        stage=model.Stage(header.stage),
        phase=model.Phase(header.phase),
        still_s=header.still_s if header.HasField("still_s") else None,
        gone=gone_from(header.gone),
        limits=tuple(model.Limit(model.Phase(x.phase), x.longest_s, x.seen, x.place) for x in header.limits),
        settings=model.Settings(
            patience_s=header.settings.patience_s,
            floor_s=header.settings.floor_s,
            startup_s=header.settings.startup_s,
            samples=header.settings.samples,
            sample_gap_s=header.settings.sample_gap_s,
            signatures=header.settings.signatures,
            startup_patience_s=header.settings.startup_patience_s or _USUAL.startup_patience_s,
            note_after_s=header.settings.note_after_s or _USUAL.note_after_s,
        ),
    )
