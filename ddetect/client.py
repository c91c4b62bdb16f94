"""Ask a coordinator how its job is.

Enters: an address ("unix:/run/c.sock", "node-0:29677") and a token. Leaves: a StatusView, or NetworkError
with what to do. Never here: printing, looking for run directories, keeping a connection open.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from ddetect.errors import NetworkError
from ddetect.model import Beats, Roster
from ddetect.wire.bundles import bundle_from
from ddetect.wire.channel import OPTIONS, metadata
from ddetect.wire.tables import table_from
from ddetect.wire.v1 import client_pb2, client_pb2_grpc


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the coordinator sees it."""

    name: str
    connected: bool
    heard_s_ago: float


@dataclass(frozen=True, eq=False)
class StatusView:
    """How a job is, all ranks of it. `state`: starting, moving, paused, suspected, confirmed, blind or ended."""

    job: str
    attempt: int
    world_size: int
    state: str
    steps_per_s: float  # 0 when unknown
    stalled_for_s: float
    roster: Roster
    beats: Beats  # row for row with the roster
    nodes: tuple[NodeView, ...]
    incident: str  # folder of the open incident, or nothing
    summary: str  # what it says
    verdict_status: str = ""  # hang, stopped, undecided, ...


def read_status(target: str, token: str | None = None, *, timeout_s: float = 5.0) -> StatusView:
    """Ask once. Raises NetworkError when nobody answers, or not to us."""
    with grpc.insecure_channel(target, options=list(OPTIONS)) as channel:
        stub = client_pb2_grpc.ClientStub(channel)  # type: ignore[no-untyped-call]  # generated
        try:
            response = stub.Status(
                client_pb2.StatusRequest(), timeout=timeout_s, metadata=metadata(token), wait_for_ready=False
            )
        except grpc.RpcError as error:
            raise _refusal(target, token, timeout_s, error) from error
    try:
        return _view(response)
    except (ValueError, IndexError) as error:
        raise NetworkError(
            f"the coordinator at {target} sent a status that makes no sense: {error}",
            hint="Both sides must run the same version of ddetect: compare `ddetect --version`.",
        ) from error


def _refusal(target: str, token: str | None, timeout_s: float, error: grpc.RpcError) -> NetworkError:
    code = error.code() if isinstance(error, grpc.Call) else None
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        given = "another token than ours" if token else "a token, and none is set here"
        return NetworkError(
            f"the coordinator at {target} wants {given}",
            hint="Set DDETECT_TOKEN to the value that the job was launched with.",
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return NetworkError(
            f"the coordinator at {target} did not answer within {timeout_s:g} s",
            hint="It may be busy: try again; then read coordinator.log in its run directory.",
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NetworkError(
            f"what listens at {target} is not a ddetect coordinator, or one of another version",
            hint="Check the address; compare `ddetect --version` on both sides.",
        )
    return NetworkError(f"no coordinator answers at {target}")


def _view(response: client_pb2.StatusResponse) -> StatusView:
    roster = bundle_from(Roster, response.roster)
    beats = table_from(Beats, response.beats)
    if len(roster) != len(beats):
        raise ValueError(f"{len(roster)} ranks, but {len(beats)} beats")
    return StatusView(
        job=response.job,
        attempt=response.attempt,
        world_size=response.world_size,
        state=response.state,
        steps_per_s=response.steps_per_s,
        stalled_for_s=response.stalled_for_s,
        roster=roster,
        beats=beats,
        nodes=tuple(NodeView(n.name, n.connected, n.heard_s_ago) for n in response.nodes),
        incident=response.incident,
        summary=response.summary,
        verdict_status=response.verdict_status,
    )
