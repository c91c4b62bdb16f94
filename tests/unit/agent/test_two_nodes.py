"""Launchers with real agents, heard by one fake coordinator: what is said of an end, where, in which order."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from ddetect.messages import EndRanks, FromAgent, Hello, JobEnds, NodeGone, NodeRoster, RanksEnded, ToAgent
from ddetect.wire.codec import decode_from_agent, encode_to_agent
from ddetect.wire.v1 import agent_pb2_grpc

LAUNCH = """
import sys
from ddetect_launcher.launch import launch
from ddetect_launcher.options import Commands, Options
idle_code, node, address, out, *job = sys.argv[1:]
agent = (sys.executable, "-m", "ddetect", "agent", "--node", node, "--coordinator", address)
idle = (sys.executable, "-c", idle_code)
sys.exit(launch(job, Options(out=out), commands=Commands(agent=agent, coordinator=idle)))
"""
IDLE = """
import sys, time
from ddetect_probe.rundir import job_is_over
while not job_is_over(sys.argv[2]):
    time.sleep(0.1)
"""
RANK = """
import os, signal, sys, time
from ddetect_probe import page
writer = page.PageWriter(os.path.join(os.environ["DDETECT_RUN_DIR"], "pages"), page.ROLE_RANK)
writer.slots[page.S_RANK], writer.slots[page.S_WORLD] = int(sys.argv[1]), 2
print("ready", flush=True)
code = sys.stdin.readline()
if code == "loader\\n":
    rank = os.getpid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        worker = page.PageWriter(os.path.join(os.environ["DDETECT_RUN_DIR"], "pages"), page.ROLE_LOADER_WORKER)
        worker.slots[page.S_RANK], worker.slots[page.S_PARENT] = int(sys.argv[1]), rank
        print(os.getpid(), flush=True)
elif code:
    os._exit(int(code))  # no handler of ours, no mark on the page
time.sleep(600)
"""


class Listener(agent_pb2_grpc.CoordinatorServicer):  # type: ignore[misc]
    """Writes down what each node says."""

    def __init__(self) -> None:
        self.heard: dict[str, list[FromAgent]] = {}
        self.orders: list[ToAgent] = []

    async def Watch(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        node = ""
        async for request in requests:
            message = decode_from_agent(request)
            node = message.node if isinstance(message, Hello) else node
            self.heard.setdefault(node, []).append(message)
            while self.orders:
                yield encode_to_agent(self.orders.pop())

    def ends(self, node: str) -> list[FromAgent]:
        return [message for message in self.heard.get(node, []) if isinstance(message, (JobEnds, NodeGone))]

    def knows(self, node: str) -> bool:
        return any(len(m.roster) for m in self.heard.get(node, []) if isinstance(m, NodeRoster))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """pytest's own folders are too deep for a unix socket path."""
    base = Path(f"/tmp/ddn-{os.getpid()}-{time.monotonic_ns() % 10**9}")
    base.mkdir()
    yield base
    shutil.rmtree(base)


def start(base: Path, node: str, rank: int) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "DDETECT_RUN_BASE": str(base)}
    for name in ("DDETECT_RUN_DIR", "DDETECT_JOB", "DDETECT_TOKEN"):
        environ.pop(name, None)
    job = [sys.executable, "-c", RANK, str(rank)]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, IDLE, node, f"unix:{base}/c", str(base / "out"), *job],
        env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


async def _until(true: Callable[[], object]) -> None:
    async def wait() -> None:
        while not true():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 60)


def with_nodes(base: Path, *nodes: str, test: Callable[..., Awaitable[None]]) -> None:
    """Run a test with a listener and a launcher for each node, when it has heard of all their ranks."""

    async def run() -> None:
        listener = Listener()
        server = grpc.aio.server()
        agent_pb2_grpc.add_CoordinatorServicer_to_server(listener, server)
        server.add_insecure_port(f"unix:{base}/c")
        await server.start()
        launchers = [start(base, node, rank) for rank, node in enumerate(nodes)]
        try:
            await _until(lambda: all(map(listener.knows, nodes)))
            await asyncio.wait_for(test(listener, *launchers), 120)
        finally:
            for launcher in launchers:
                if launcher.poll() is None:
                    os.killpg(launcher.pid, signal.SIGKILL)
                launcher.communicate()
            await server.stop(None)
            await _until(lambda: not _ours(base))

    asyncio.run(run())


def _ours(base: Path) -> list[int]:
    """Agents and stand-ins of these launchers that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if str(base).encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


async def _wait(process: subprocess.Popen[bytes]) -> int:
    return await asyncio.get_running_loop().run_in_executor(None, process.wait, 60)


def test_signal_to_one_node_of_two_is_told_by_that_node_before_its_deaths(short_path: Path) -> None:
    """The other node says nothing of it and knows nothing of it: its job runs."""

    async def test(listener: Listener, one: subprocess.Popen[bytes], other: subprocess.Popen[bytes]) -> None:
        one.send_signal(signal.SIGTERM)
        assert await _wait(one) == 128 + signal.SIGTERM
        await _until(lambda: len(listener.ends("a")) >= 3)

        first, *rest = listener.ends("a")
        assert isinstance(first, JobEnds)
        assert (first.signal, first.exit_code) == (signal.SIGTERM, None)
        gone = [message for message in rest if isinstance(message, NodeGone)]
        assert [[each.signal for each in message.gone] for message in gone] == [[signal.SIGTERM]]
        codes = [m.exit_code for m in rest if isinstance(m, JobEnds)]
        assert codes == [128 + signal.SIGTERM]
        assert listener.ends("b") == []
        assert other.poll() is None

    with_nodes(short_path, "a", "b", test=test)


def test_signal_to_the_whole_group_is_told_before_the_death_too(short_path: Path) -> None:
    """Ctrl-C, `timeout`, mpirun: the job has it as soon as the launcher, and may be dead before the launcher speaks."""

    async def test(listener: Listener, one: subprocess.Popen[bytes]) -> None:
        os.killpg(one.pid, signal.SIGTERM)
        await _wait(one)
        await _until(lambda: len(listener.ends("a")) >= 3)

        assert isinstance(listener.ends("a")[0], JobEnds)

    with_nodes(short_path, "a", test=test)


def test_exit_code_of_the_launchers_own_child_is_known(short_path: Path) -> None:
    """`ddetect launch python train.py`: the launcher waits for the rank itself, and tells how it ended."""

    async def test(listener: Listener, one: subprocess.Popen[bytes]) -> None:
        assert one.stdin is not None
        one.stdin.write(b"3\n")
        one.stdin.flush()
        assert await _wait(one) == 3
        await _until(lambda: len(listener.ends("a")) >= 2)

        ((gone,),) = [m.gone for m in listener.ends("a") if isinstance(m, NodeGone)]
        assert [m.exit_code for m in listener.ends("a") if isinstance(m, JobEnds)] == [3]
        assert (gone.signal, gone.code) == (0, 3)

    with_nodes(short_path, "a", test=test)


def test_stop_ends_a_stuck_loader_worker_though_the_launcher_is_over_with_the_rank(short_path: Path) -> None:
    """`ddetect launch --on-hang stop python train.py | tail`: the rank dies at once and the launcher ends its agent,
    but the pipe ends only with the worker, which hears no SIGTERM."""

    async def test(listener: Listener, one: subprocess.Popen[bytes]) -> None:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b"loader\n")
        one.stdin.flush()
        worker = int(one.stdout.readline())
        listener.orders.append(EndRanks(5.0))
        assert await _wait(one) == 128 + signal.SIGTERM
        loop = asyncio.get_running_loop()
        assert await asyncio.wait_for(loop.run_in_executor(None, one.stdout.read), 30) == b""
        await _until(lambda: any(isinstance(message, RanksEnded) for message in listener.heard["a"]))

        (ended,) = [message for message in listener.heard["a"] if isinstance(message, RanksEnded)]
        assert ended == RanksEnded((worker,))

    with_nodes(short_path, "a", test=test)
