"""Snapshots of tests, changed in one place: `changed(snapshot, samples=..., progress=..., unread=...)`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ddetect.model import Comms, Look, Sample, Snapshot

_OF_COMMS = frozenset(item.name for item in fields(Comms))


def changed(snapshot: Snapshot, **parts: Any) -> Snapshot:
    """The same snapshot with other parts; those of a look are the newest's, `samples` are one per look."""
    comms = replace(snapshot.comms, **{name: parts.pop(name) for name in _OF_COMMS & parts.keys()})
    unread = parts.pop("unread", snapshot.unread)
    samples: tuple[Sample, ...] = parts.pop("samples", snapshot.samples)
    looks = [*snapshot.looks[:-1], *([Look()] * len(samples))][: max(0, len(samples) - 1)]
    looks = [replace(look, sample=sample) for look, sample in zip(looks, samples[:-1], strict=True)]
    if samples or unread or comms.groups or len(comms.p2p):
        newest = samples[-1] if samples else Sample()
        looks.append(Look(newest, comms, unread))
    return replace(snapshot, looks=tuple(looks), **parts)
