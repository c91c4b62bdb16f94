"""The stream to the coordinator: one bidirectional gRPC call, dialled again for ever.

Enters: messages to say. Leaves: orders, handed to the node; its answers go back the same way. After every
reconnect all is told again, because the one who listens may be new.
Never here: what the messages mean. The only file of the agent that knows gRPC.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from ddetect.messages import FromAgent, NodeBeat, ToAgent
from ddetect.wire.channel import metadata, open_channel
from ddetect.wire.codec import decode_to_agent, encode_from_agent
from ddetect.wire.v1 import agent_pb2_grpc

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_DIAL_S = 5.0
_BACKLOG = 64  # beats behind which a new one is dropped: an old beat is worth nothing


class Link:
    """Carries messages while there is a stream and drops them while there is none."""

    def __init__(
        self,
        target: Callable[[], str | None],
        token: str | None,
        retell: Callable[[], list[FromAgent]],
        obey: Callable[[ToAgent], Awaitable[FromAgent | None]],
    ) -> None:
        self._target = target
        self._token = token
        self._retell = retell
        self._obey = obey
        self._queue: asyncio.Queue[FromAgent] | None = None
        self._call: Any = None
        self._orders: set[asyncio.Task[None]] = set()
        self._complained = ""

    def say(self, messages: list[FromAgent]) -> None:
        """Send these if someone listens; who comes later is told by `retell`."""
        if self._queue is None:
            return
        for message in messages:
            if not isinstance(message, NodeBeat) or self._queue.qsize() < _BACKLOG:
                self._queue.put_nowait(message)

    async def finish(self, timeout_s: float) -> None:
        """End the stream once all that was said has been heard, or the time is up."""
        if self._queue is not None and self._call is not None:
            try:
                await asyncio.wait_for(_end(self._queue, self._call), timeout_s)
            except (asyncio.TimeoutError, asyncio.InvalidStateError, grpc.RpcError):
                pass  # nobody listens any more

    async def hold(self) -> None:
        """Keep a stream open until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            target = self._target()
            if target:
                began = asyncio.get_running_loop().time()
                await self._talk(target)
                if asyncio.get_running_loop().time() - began > 2 * _LONGEST_PAUSE_S:
                    pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            # Nobody to dial yet costs nothing to look for again: the coordinator writes its address when it is up.
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2) if target else _FIRST_PAUSE_S

    async def _talk(self, target: str) -> None:
        channel = open_channel(target, self._token)
        try:
            await asyncio.wait_for(channel.channel_ready(), _DIAL_S)
            await self._stream(channel)
        except asyncio.TimeoutError:
            self._complain(f"no coordinator answers at {target}")
        except grpc.aio.AioRpcError as error:
            self._complain(
                f"the coordinator at {target} ended the stream: {error.code().name} {error.details()}"
            )
        except (OSError, grpc.RpcError, ValueError) as error:
            self._complain(f"the stream to {target} broke: {error!r}")
        finally:
            self._queue = None
            await channel.close(None)

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        stub = agent_pb2_grpc.CoordinatorStub(channel)  # type: ignore[no-untyped-call]
        call = stub.Watch(metadata=metadata(self._token))
        queue: asyncio.Queue[FromAgent] = asyncio.Queue()
        for message in self._retell():
            queue.put_nowait(message)
        self._queue, self._call = queue, call
        hearing = asyncio.ensure_future(self._hear(call))
        saying = asyncio.ensure_future(self._speak(call, queue))
        try:
            done, _ = await asyncio.wait({hearing, saying}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            hearing.cancel()
            saying.cancel()
            await asyncio.gather(hearing, saying, return_exceptions=True)
            call.cancel()

    async def _speak(self, call: Any, queue: asyncio.Queue[FromAgent]) -> None:
        while True:
            await call.write(encode_from_agent(await queue.get()))
            queue.task_done()

    async def _hear(self, call: Any) -> None:
        while True:
            heard = await call.read()
            if heard is grpc.aio.EOF:  # type: ignore[attr-defined]  # missing in the stubs
                raise ValueError("the coordinator closed it")
            self._complained = ""
            task = asyncio.ensure_future(self._carry_out(decode_to_agent(heard)))
            self._orders.add(task)
            task.add_done_callback(self._orders.discard)

    async def _carry_out(self, order: ToAgent) -> None:
        try:
            answer = await self._obey(order)
        except Exception as error:
            self._complain(f"{type(order).__name__} failed: {error!r}")
            return
        if answer is not None:
            self.say([answer])

    def _complain(self, text: str) -> None:
        if text != self._complained:  # once, not five times a second for as long as it lasts
            print(f"ddetect agent: {text}", file=sys.stderr, flush=True)
        self._complained = text


async def _end(queue: asyncio.Queue[FromAgent], call: Any) -> None:
    await queue.join()
    # A stream that is dropped takes with it what is still on its way: say that it ends, and wait for the answer.
    await call.done_writing()
    await call.code()
