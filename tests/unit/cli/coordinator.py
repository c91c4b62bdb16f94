"""A coordinator that answers `Status` with what a test gives it, on a unix socket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent import futures
from dataclasses import replace
from pathlib import Path

import grpc

from ddetect.model import Beats
from ddetect.wire.bundles import bundle_pb
from ddetect.wire.channel import admits
from ddetect.wire.tables import pack, table_from
from ddetect.wire.v1 import client_pb2, client_pb2_grpc
from tests.unit.report.test_status import columns


class Coordinator(client_pb2_grpc.ClientServicer):
    """Answers, or refuses without the token."""

    def __init__(self, response: client_pb2.StatusResponse, token: str | None = None) -> None:
        self.response, self.token = response, token

    def Status(self, request, context):
        if not admits(self.token, context.invocation_metadata()):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "token")
        return self.response


@contextlib.contextmanager
def serving(path: Path, response: client_pb2.StatusResponse, token: str | None = None) -> Iterator[str]:
    """Serve until the test leaves the block; yields the target."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    client_pb2_grpc.add_ClientServicer_to_server(Coordinator(response, token), server)
    target = f"unix:{path}"
    server.add_insecure_port(target)
    server.start()
    try:
        yield target
    finally:
        server.stop(None).wait()


def response(state: str = "moving", ranks: int = 4, **changes: object) -> client_pb2.StatusResponse:
    """A job of `ranks` ranks in a collective at step 1412."""
    roster, beats = columns(ranks)
    said = client_pb2.StatusResponse(
        job="night-run",
        world_size=ranks,
        state=state,
        steps_per_s=19.8,
        stalled_for_s=12.0,
        roster=bundle_pb(roster),
        beats=pack(beats),
        nodes=[client_pb2.NodeStatus(name="node-0", connected=True, heard_s_ago=0.4)],
    )
    said.MergeFrom(client_pb2.StatusResponse(**changes))  # type: ignore[arg-type]
    return said


def say_of(said: client_pb2.StatusResponse, row: int, **numbers: float) -> None:
    """Change what is said of one rank."""
    beats = table_from(Beats, said.beats)
    changed = {name: getattr(beats, name).copy() for name in numbers}
    for name, number in numbers.items():
        changed[name][row] = number
    said.beats.CopyFrom(pack(replace(beats, **changed)))
