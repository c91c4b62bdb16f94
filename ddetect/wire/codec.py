"""Model and messages <-> protobuf. Protobuf stops here.

Enters: values of ddetect.model and ddetect.messages, or protobuf messages. Leaves: the other.
Never here: sockets, files, decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ddetect import messages as say
from ddetect import model
from ddetect.errors import NetworkError
from ddetect.rankset import format_ranks, parse_ranks
from ddetect.wire.tables import check_indices, columns, fill, table_from
from ddetect.wire.v1 import agent_pb2, snapshot_pb2

_SAME_VERSION = "Use the same ddetect version on all nodes."

# ---------------------------------------------------------------- values


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


def sample_pb(sample: model.Sample) -> snapshot_pb2.Sample:
    """Encode a sample; every distinct frame is written once."""
    message = snapshot_pb2.Sample()
    fill(message, sample)
    seen: dict[model.Frame, int] = {}
    for sighting in sample.sightings:
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
            )
    message.frames.extend(frame_pb(frame) for frame in seen)
    return message


def sample_from(message: snapshot_pb2.Sample) -> model.Sample:
    """Decode a sample."""
    frames = [frame_from(frame) for frame in message.frames]
    sightings = tuple(
        model.Sighting(
            state=shown.state,
            dumper=shown.dumper,
            unread=shown.unread,
            raised=raised_from(shown.raised) if shown.HasField("raised") else None,
            threads=tuple(
                model.Thread(
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
                )
                for thread in shown.threads
            ),
        )
        for shown in message.sightings
    )
    return model.Sample(sightings=sightings, **columns(model.Sample, [message]))


def roster_pb(roster: model.Roster) -> snapshot_pb2.Roster:
    """Encode a roster."""
    message = snapshot_pb2.Roster(nodes=roster.nodes)
    fill(message, roster)
    return message


def roster_from(*parts: snapshot_pb2.Roster) -> model.Roster:
    """Decode a roster, from one or more chunks."""
    nodes = tuple(parts[0].nodes) if parts else ()
    return model.Roster(nodes=nodes, **columns(model.Roster, parts))


def beats_pb(beats: model.Beats) -> snapshot_pb2.Beats:
    """Encode beats."""
    message = snapshot_pb2.Beats()
    fill(message, beats)
    return message


def collectives_pb(
    groups: Iterable[model.Group], signatures: Iterable[model.Signature], frames: Iterable[model.Frame]
) -> snapshot_pb2.Collectives:
    """Encode what the rows of Progress, Ops and OpenP2P point into."""
    message = snapshot_pb2.Collectives(frames=[frame_pb(frame) for frame in frames])
    for group in groups:
        message.groups.add(
            backend=group.backend, name=group.name, desc=group.desc, members=format_ranks(group.members)
        )
    for signature in signatures:
        message.signatures.add(
            op=signature.op,
            in_sizes=signature.in_sizes,
            in_dtypes=signature.in_dtypes,
            out_sizes=signature.out_sizes,
            out_dtypes=signature.out_dtypes,
            root=signature.root,
            reduce_op=signature.reduce_op,
        )
    return message


def groups_from(message: snapshot_pb2.Collectives) -> tuple[model.Group, ...]:
    """Decode process groups."""
    return tuple(model.Group(g.backend, g.name, g.desc, parse_ranks(g.members)) for g in message.groups)


def signatures_from(message: snapshot_pb2.Collectives) -> tuple[model.Signature, ...]:
    """Decode collective signatures."""
    return tuple(
        model.Signature(s.op, s.in_sizes, s.in_dtypes, s.out_sizes, s.out_dtypes, s.root, s.reduce_op)
        for s in message.signatures
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
        )
        for item in parts
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


# ---------------------------------------------------------------- the stream


def encode_from_agent(message: say.FromAgent) -> agent_pb2.AgentMessage:
    """What an agent says, as bytes-to-be."""
    match message:
        case say.Hello():
            return agent_pb2.AgentMessage(hello=agent_pb2.Hello(node=message.node, job=message.job))
        case say.NodeRoster():
            return agent_pb2.AgentMessage(
                roster=agent_pb2.NodeRoster(
                    version=message.version,
                    world_size=message.world_size,
                    restart=message.restart,
                    roster=roster_pb(message.roster),
                )
            )
        case say.NodeBeat():
            return agent_pb2.AgentMessage(
                beat=agent_pb2.NodeBeat(roster_version=message.roster_version, beats=beats_pb(message.beats))
            )
        case say.NodeGone():
            return agent_pb2.AgentMessage(gone=agent_pb2.NodeGone(gone=gone_pb(message.gone)))
        case say.Evidence():
            evidence = agent_pb2.Evidence(
                request=message.request,
                sample=sample_pb(message.sample),
                collectives=collectives_pb(message.groups, message.signatures, message.frames),
                unread=unread_pb(message.unread),
            )
            fill(evidence.progress, message.progress)
            fill(evidence.ops, message.ops)
            fill(evidence.p2p, message.p2p)
            return agent_pb2.AgentMessage(evidence=evidence)
        case _:
            assert_never(message)


def decode_from_agent(message: agent_pb2.AgentMessage) -> say.FromAgent:
    """What an agent said. Raises NetworkError for what we do not understand."""
    try:
        return _decode_from_agent(message)
    except (ValueError, IndexError) as error:
        raise NetworkError(f"an agent sent a message that makes no sense: {error}", _SAME_VERSION) from error


def _decode_from_agent(message: agent_pb2.AgentMessage) -> say.FromAgent:
    match message.WhichOneof("message"):
        case "hello":
            return say.Hello(message.hello.node, message.hello.job)
        case "roster":
            part = message.roster
            return say.NodeRoster(part.version, part.world_size, part.restart, roster_from(part.roster))
        case "beat":
            return say.NodeBeat(message.beat.roster_version, table_from(model.Beats, message.beat.beats))
        case "gone":
            return say.NodeGone(gone_from(message.gone.gone))
        case "evidence":
            seen = message.evidence
            evidence = say.Evidence(
                request=seen.request,
                sample=sample_from(seen.sample),
                groups=groups_from(seen.collectives),
                signatures=signatures_from(seen.collectives),
                frames=tuple(frame_from(frame) for frame in seen.collectives.frames),
                progress=table_from(model.Progress, seen.progress),
                ops=table_from(model.Ops, seen.ops),
                p2p=table_from(model.OpenP2P, seen.p2p),
                unread=unread_from(seen.unread),
            )
            check_indices(evidence)
            return evidence
        case other:
            raise NetworkError(f"an agent sent a message this ddetect does not know ({other})", _SAME_VERSION)


def encode_to_agent(message: say.ToAgent) -> agent_pb2.CoordinatorMessage:
    """What the coordinator asks of an agent."""
    match message:
        case say.TakeEvidence():
            return agent_pb2.CoordinatorMessage(
                take_evidence=agent_pb2.TakeEvidence(request=message.request, native_pids=message.native_pids)
            )
        case say.EndRanks():
            return agent_pb2.CoordinatorMessage(end_ranks=agent_pb2.EndRanks(grace_s=message.grace_s))
        case _:
            assert_never(message)


def decode_to_agent(message: agent_pb2.CoordinatorMessage) -> say.ToAgent:
    """What the coordinator asked. Raises NetworkError for words we do not know."""
    match message.WhichOneof("message"):
        case "take_evidence":
            return say.TakeEvidence(message.take_evidence.request, tuple(message.take_evidence.native_pids))
        case "end_ranks":
            return say.EndRanks(message.end_ranks.grace_s)
        case other:
            raise NetworkError(
                f"the coordinator sent a message this ddetect does not know ({other})", _SAME_VERSION
            )
