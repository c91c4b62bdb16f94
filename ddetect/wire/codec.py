"""What agent and coordinator say to each other <-> protobuf.

Enters: values of ddetect.messages, or protobuf messages. Leaves: the other.
Never here: how a value or a table is written (values.py, tables.py, bundles.py), sockets, decisions.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from typing_extensions import assert_never

from ddetect import messages as say
from ddetect import model
from ddetect.errors import NetworkError
from ddetect.wire.bundles import bundle_from, bundle_pb
from ddetect.wire.tables import pack, table_from
from ddetect.wire.v1 import agent_pb2
from ddetect.wire.values import gone_from, gone_pb

_SAME_VERSION = "Use the same ddetect version on all nodes."


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
                    roster=bundle_pb(message.roster),
                    framework=message.framework,
                )
            )
        case say.NodeBeat():
            return agent_pb2.AgentMessage(
                beat=agent_pb2.NodeBeat(roster_version=message.roster_version, beats=pack(message.beats))
            )
        case say.NodeGone():
            return agent_pb2.AgentMessage(gone=agent_pb2.NodeGone(gone=gone_pb(message.gone)))
        case say.JobEnds():
            # An exit code of None is left out, which the constructor does by itself.
            ends = agent_pb2.JobEnds(signal=message.signal, exit_code=message.exit_code, age_s=message.age_s)
            return agent_pb2.AgentMessage(job_ends=ends)
        case say.RanksEnded():
            ended = agent_pb2.RanksEnded(killed=message.killed, alive=message.alive, left=message.left)
            return agent_pb2.AgentMessage(ranks_ended=ended)
        case say.Evidence():
            evidence = agent_pb2.Evidence(request=message.request, look=bundle_pb(message.look))
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
            roster = bundle_from(model.Roster, part.roster)
            return say.NodeRoster(part.version, part.world_size, part.restart, roster, part.framework)
        case "beat":
            return say.NodeBeat(message.beat.roster_version, table_from(model.Beats, message.beat.beats))
        case "gone":
            return say.NodeGone(gone_from(message.gone.gone))
        case "job_ends":
            ends = message.job_ends
            return say.JobEnds(
                ends.signal, ends.exit_code if ends.HasField("exit_code") else None, ends.age_s
            )
        case "ranks_ended":
            ended = message.ranks_ended
            return say.RanksEnded(tuple(ended.killed), tuple(ended.alive), tuple(ended.left))
        case "evidence":
            seen = message.evidence
            return say.Evidence(seen.request, bundle_from(model.Look, seen.look))
        case other:
            raise NetworkError(f"an agent sent a message this ddetect does not know ({other})", _SAME_VERSION)


def agent_bytes(message: say.FromAgent) -> bytes:
    """What an agent said, as it is kept."""
    return encode_from_agent(message).SerializeToString()


def agent_words(data: bytes) -> say.FromAgent:
    """What was kept. Raises NetworkError when it makes no sense."""
    try:
        return decode_from_agent(agent_pb2.AgentMessage.FromString(data))
    except DecodeError as error:
        raise NetworkError(f"a kept message makes no sense: {error}") from error


def encode_to_agent(message: say.ToAgent) -> agent_pb2.CoordinatorMessage:
    """What the coordinator asks of an agent."""
    match message:
        case say.TakeEvidence():
            return agent_pb2.CoordinatorMessage(
                take_evidence=agent_pb2.TakeEvidence(
                    request=message.request, native_pids=message.native_pids, light=message.light
                )
            )
        case say.EndRanks():
            return agent_pb2.CoordinatorMessage(
                end_ranks=agent_pb2.EndRanks(
                    grace_s=message.grace_s, sentence=message.sentence, waiting=message.waiting
                )
            )
        case _:
            assert_never(message)


def decode_to_agent(message: agent_pb2.CoordinatorMessage) -> say.ToAgent:
    """What the coordinator asked. Raises NetworkError for words we do not know."""
    match message.WhichOneof("message"):
        case "take_evidence":
            take = message.take_evidence
            return say.TakeEvidence(take.request, tuple(take.native_pids), take.light)
        case "end_ranks":
            end = message.end_ranks
            return say.EndRanks(end.grace_s, end.sentence, tuple(end.waiting))
        case other:
            raise NetworkError(
                f"the coordinator sent a message this ddetect does not know ({other})", _SAME_VERSION
            )
