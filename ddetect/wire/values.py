"""Values of the model <-> protobuf, one pair of functions each. Protobuf stops in this package.

Enters: frozen values or messages. Leaves: the other. Never here: columns (tables.py), sockets, files, decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ddetect import model
from ddetect.rankset import format_members, format_ranks, parse_members, parse_ranks
from ddetect.wire.v1 import snapshot_pb2


def frame_pb(frame: model.Frame) -> snapshot_pb2.Frame:
    """Encode a frame."""
    return snapshot_pb2.Frame(function=frame.function, file=frame.file, line=frame.line)


def frame_from(message: snapshot_pb2.Frame) -> model.Frame:
    """Decode a frame."""
    return model.Frame(message.function, message.file, message.line)


def raised_pb(raised: model.Raised) -> snapshot_pb2.Raised:
    """Encode the exception of a living process."""
    message = snapshot_pb2.Raised(exception=raised.exception, fatal=raised.fatal)
    if raised.where is not None:
        message.where.CopyFrom(frame_pb(raised.where))
    return message


def raised_from(message: snapshot_pb2.Raised) -> model.Raised:
    """Decode the exception of a living process."""
    where = frame_from(message.where) if message.HasField("where") else None
    return model.Raised(message.exception, where, message.fatal)


def sightings_pb(sightings: Iterable[model.Sighting], message: snapshot_pb2.Values) -> None:
    """Encode sightings; every distinct frame is written once."""
    seen: dict[model.Frame, int] = {}
    for sighting in sightings:
        shown = message.sightings.add(state=sighting.state, dumper=sighting.dumper, unread=sighting.unread)
        if sighting.raised is not None:
            shown.raised.CopyFrom(raised_pb(sighting.raised))
        for thread in sighting.threads:
            shown.threads.add(
                name=thread.name,
                is_main=thread.is_main,
                active=thread.active,
                owns_gil=thread.owns_gil,
                stack=[seen.setdefault(frame, len(seen)) for frame in thread.stack],
                state=thread.state,
                wchan=thread.wchan,
                syscall=thread.syscall,
                target=thread.target,
                native=thread.native,
                lane_plus_one=thread.lane + 1,
                phase_plus_one=thread.phase + 1,
            )
    message.frames.extend(frame_pb(frame) for frame in seen)


def sightings_from(
    shown: Iterable[snapshot_pb2.Sighting], frames: Iterable[snapshot_pb2.Frame]
) -> tuple[model.Sighting, ...]:
    """Decode sightings, whose stacks point into `frames`."""
    known = [frame_from(frame) for frame in frames]
    return tuple(
        model.Sighting(
            state=one.state,
            dumper=one.dumper,
            unread=one.unread,
            raised=raised_from(one.raised) if one.HasField("raised") else None,
            threads=tuple(_thread_from(thread, known) for thread in one.threads),
        )
        for one in shown
    )


def _thread_from(thread: snapshot_pb2.Thread, frames: Sequence[model.Frame]) -> model.Thread:
    return model.Thread(
        name=thread.name,
        is_main=thread.is_main,
        active=thread.active,
        owns_gil=thread.owns_gil,
        stack=tuple(frames[at] for at in thread.stack),
        state=thread.state,
        wchan=thread.wchan,
        syscall=thread.syscall,
        target=thread.target,
        native=tuple(thread.native),
        lane=thread.lane_plus_one - 1,
        phase=thread.phase_plus_one - 1,
    )


def group_pb(group: model.Group) -> snapshot_pb2.Group:
    """Encode a process group."""
    return snapshot_pb2.Group(
        backend=group.backend, name=group.name, desc=group.desc, members=format_members(group.members)
    )


def group_from(message: snapshot_pb2.Group) -> model.Group:
    """Decode a process group."""
    return model.Group(message.backend, message.name, message.desc, parse_members(message.members))


def call_pb(call: model.CallSpec) -> snapshot_pb2.CallSpec:
    """Encode what members must agree on."""
    return snapshot_pb2.CallSpec(
        op=call.op,
        in_sizes=call.in_sizes,
        in_dtypes=call.in_dtypes,
        out_sizes=call.out_sizes,
        out_dtypes=call.out_dtypes,
        root=call.root,
        reduce_op=call.reduce_op,
    )


def call_from(message: snapshot_pb2.CallSpec) -> model.CallSpec:
    """Decode what members must agree on."""
    return model.CallSpec(
        message.op,
        message.in_sizes,
        message.in_dtypes,
        message.out_sizes,
        message.out_dtypes,
        message.root,
        message.reduce_op,
    )


def gone_pb(gone: Sequence[model.Gone]) -> list[snapshot_pb2.Gone]:
    """Encode processes that ended."""
    return [
        snapshot_pb2.Gone(
            rank=item.rank,
            role=int(item.role),
            index=item.index,
            pid=item.pid,
            how=item.how.value,
            age_s=item.age_s,
            exception=item.exception,
            where=frame_pb(item.where) if item.where else None,
            signal=item.signal,
            code=item.code if item.code != model.UNKNOWN else None,
            last_call=_last_call_pb(item.last_call) if item.last_call else None,
            stack=[frame_pb(frame) for frame in item.stack],
            below=item.below,
            stderr=item.stderr,
        )
        for item in gone
    ]


def gone_from(parts: Iterable[snapshot_pb2.Gone]) -> tuple[model.Gone, ...]:
    """Decode processes that ended."""
    return tuple(
        model.Gone(
            rank=item.rank,
            role=model.Role(item.role),
            index=item.index,
            pid=item.pid,
            how=model.Departure(item.how),
            age_s=item.age_s,
            exception=item.exception,
            where=frame_from(item.where) if item.HasField("where") else None,
            signal=item.signal,
            code=item.code if item.HasField("code") else model.UNKNOWN,
            last_call=_last_call_from(item.last_call) if item.HasField("last_call") else None,
            stack=tuple(frame_from(frame) for frame in item.stack),
            below=item.below,
            stderr=tuple(item.stderr),
        )
        for item in parts
    )


def _last_call_pb(call: model.LastCall) -> snapshot_pb2.LastCall:
    return snapshot_pb2.LastCall(
        inside=call.inside,
        op=call.op,
        backend=call.backend,
        group=call.group,
        label=call.label,
        seq=call.seq,
        root=call.root,
        reduce_op=call.reduce_op,
        elements=call.elements,
        size=call.size,
    )


def _last_call_from(message: snapshot_pb2.LastCall) -> model.LastCall:
    return model.LastCall(
        message.inside,
        message.op,
        message.backend,
        message.group,
        message.label,
        message.seq,
        message.root,
        message.reduce_op,
        message.elements,
        message.size,
    )


def unread_pb(unread: Iterable[model.Unread]) -> list[snapshot_pb2.Unread]:
    """Encode what could not be read."""
    return [
        snapshot_pb2.Unread(
            ranks=format_ranks(item.ranks), reason=item.reason, node=item.node, silent_s=item.silent_s
        )
        for item in unread
    ]


def unread_from(parts: Iterable[snapshot_pb2.Unread]) -> tuple[model.Unread, ...]:
    """Decode what could not be read."""
    return tuple(
        model.Unread(
            parse_ranks(item.ranks),
            item.reason,
            item.node,
            item.silent_s if item.HasField("silent_s") else None,
        )
        for item in parts
    )


# ---------------------------------------------------------------- lists of values


@dataclass(frozen=True, slots=True)
class ListCodec:
    """How a list of one kind of values goes into a `Values` message, and out of it."""

    fill: Callable[[Iterable[Any], snapshot_pb2.Values], None]
    read: Callable[[snapshot_pb2.Values], tuple[Any, ...]]


LISTS: dict[type[Any], ListCodec] = {
    str: ListCodec(lambda some, to: to.texts.extend(some), lambda of: tuple(of.texts)),
    model.Frame: ListCodec(
        lambda some, to: to.frames.extend(map(frame_pb, some)), lambda of: tuple(map(frame_from, of.frames))
    ),
    model.Group: ListCodec(
        lambda some, to: to.groups.extend(map(group_pb, some)), lambda of: tuple(map(group_from, of.groups))
    ),
    model.CallSpec: ListCodec(
        lambda some, to: to.calls.extend(map(call_pb, some)), lambda of: tuple(map(call_from, of.calls))
    ),
    model.Sighting: ListCodec(sightings_pb, lambda of: sightings_from(of.sightings, of.frames)),
    model.Unread: ListCodec(
        lambda some, to: to.unread.extend(unread_pb(some)), lambda of: unread_from(of.unread)
    ),
}
"""A list that columns point into may hold these."""
