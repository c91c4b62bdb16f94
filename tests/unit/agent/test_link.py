"""The stream, against a real gRPC server that says little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio

from ddetect.agent.link import Link
from ddetect.messages import EndRanks, Evidence, FromAgent, Hello, NodeBeat, TakeEvidence, ToAgent
from ddetect.model import Beats, Look
from ddetect.wire.channel import admits
from ddetect.wire.codec import decode_from_agent, encode_to_agent
from ddetect.wire.v1 import agent_pb2_grpc

BEAT = NodeBeat(1, Beats())


class Listener(agent_pb2_grpc.CoordinatorServicer):  # type: ignore[misc]
    """Writes down what it hears and gives the orders it was made with, once each."""

    def __init__(self, *orders: ToAgent) -> None:
        self.heard: list[FromAgent] = []
        self.tokens: list[bool] = []
        self.orders = list(orders)

    async def Watch(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        self.tokens.append(admits("secret", context.invocation_metadata()))
        async for request in requests:
            self.heard.append(decode_from_agent(request))
            while self.orders:
                yield encode_to_agent(self.orders.pop(0))

    async def serve(self, path: Path) -> grpc.aio.Server:
        server = grpc.aio.server()
        agent_pb2_grpc.add_CoordinatorServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        return server


async def _until(true: Callable[[], object]) -> None:
    async def wait() -> None:
        while not true():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 60)


async def _nothing(order: ToAgent) -> FromAgent | None:
    return None


def _link(path: Path, obey: Callable[[ToAgent], Awaitable[FromAgent | None]] = _nothing) -> Link:
    return Link(lambda: f"unix:{path}" if path.exists() else None, "secret", lambda: [Hello("n", "j")], obey)


def _run(test: Awaitable[None]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test, 120)

    asyncio.run(limited())


def test_hello_comes_first_and_the_token_with_it(tmp_path: Path) -> None:
    """Whoever listens learns who speaks before anything else, and that they may."""

    async def test() -> None:
        listener = Listener()
        server = await listener.serve(tmp_path / "c")
        link = _link(tmp_path / "c")
        held = asyncio.ensure_future(link.hold())
        await _until(lambda: listener.heard)
        link.say([BEAT])
        await _until(lambda: len(listener.heard) == 2)
        held.cancel()
        await server.stop(None)
        assert (Hello("n", "j"), NodeBeat, [True]) == (
            listener.heard[0],
            type(listener.heard[1]),
            listener.tokens,
        )

    _run(test())


def test_coordinator_that_comes_back_is_told_again(tmp_path: Path) -> None:
    """Kill the coordinator and start another: the agent finds it and begins anew."""

    async def test() -> None:
        first, second = Listener(), Listener()
        server = await first.serve(tmp_path / "c")
        link = _link(tmp_path / "c")
        held = asyncio.ensure_future(link.hold())
        await _until(lambda: first.heard)
        await server.stop(None)
        (tmp_path / "c").unlink(missing_ok=True)
        server = await second.serve(tmp_path / "c")
        await _until(lambda: second.heard)
        held.cancel()
        await server.stop(None)
        assert second.heard[0] == Hello("n", "j")

    _run(test())


def test_last_words_are_heard_before_the_stream_ends(tmp_path: Path) -> None:
    """What is said last matters most (who died), and a listener may be slow to read it."""

    class Slow(Listener):
        async def Watch(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            async for said in super().Watch(requests, context):
                yield said
                await reads.wait()

    async def test() -> None:
        listener = Slow(TakeEvidence(1))  # it goes on reading when it may
        server = await listener.serve(tmp_path / "c")
        link = _link(tmp_path / "c")
        held = asyncio.ensure_future(link.hold())
        await _until(lambda: listener.heard)
        link.say([BEAT] * 5)
        finished = asyncio.ensure_future(link.finish(60))
        for _ in range(100):  # a chance to leave too early
            await asyncio.sleep(0)
        reads.set()
        await finished
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        heard = len(listener.heard)
        await server.stop(None)
        assert heard == 6

    reads = asyncio.Event()
    _run(test())


def test_finish_gives_up_when_nobody_reads(tmp_path: Path) -> None:
    """A coordinator that hangs does not hold the agent."""

    class Deaf(Listener):
        async def Watch(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            async for said in super().Watch(requests, context):
                yield said
                await asyncio.Event().wait()

    async def test() -> None:
        listener = Deaf(TakeEvidence(1))
        server = await listener.serve(tmp_path / "c")
        link = _link(tmp_path / "c")
        held = asyncio.ensure_future(link.hold())
        await _until(lambda: listener.heard)
        link.say([BEAT])
        await link.finish(0.05)
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        await server.stop(None)

    _run(test())


def test_agent_started_before_the_coordinator_waits_for_it(tmp_path: Path) -> None:
    """No address yet is no error: the agent looks again until there is one."""

    async def test() -> None:
        listener = Listener()
        link = _link(tmp_path / "c")
        held = asyncio.ensure_future(link.hold())
        link.say([BEAT])  # nobody listens: dropped, not kept
        await asyncio.sleep(0)
        server = await listener.serve(tmp_path / "c")
        await _until(lambda: listener.heard)
        held.cancel()
        await server.stop(None)
        assert [Hello("n", "j")] == listener.heard

    _run(test())


def test_order_is_carried_out_and_answered(tmp_path: Path) -> None:
    """Evidence goes back on the same stream, while beats go on."""

    async def obey(order: ToAgent) -> FromAgent | None:
        return Evidence(order.request, Look()) if isinstance(order, TakeEvidence) else None

    async def test() -> None:
        listener = Listener(EndRanks(1.0), TakeEvidence(7, (1, 2)))
        server = await listener.serve(tmp_path / "c")
        held = asyncio.ensure_future(_link(tmp_path / "c", obey).hold())
        await _until(lambda: len(listener.heard) == 2)
        held.cancel()
        await server.stop(None)
        answer = listener.heard[1]
        assert isinstance(answer, Evidence)
        assert answer.request == 7

    _run(test())


def test_order_that_fails_does_not_end_the_stream(tmp_path: Path) -> None:
    """One failed order is a line in the log; the next is carried out."""

    async def obey(order: ToAgent) -> FromAgent | None:
        if isinstance(order, EndRanks):
            raise RuntimeError("no")
        return Evidence(order.request, Look())

    async def test() -> None:
        listener = Listener(EndRanks(1.0), TakeEvidence(7))
        server = await listener.serve(tmp_path / "c")
        held = asyncio.ensure_future(_link(tmp_path / "c", obey).hold())
        await _until(lambda: len(listener.heard) == 2)
        held.cancel()
        await server.stop(None)
        assert len(listener.tokens) == 1

    _run(test())
