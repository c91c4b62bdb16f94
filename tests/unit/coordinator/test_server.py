"""The coordinator over real gRPC on a unix socket and on loopback, with an agent played by the test."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from ddetect.client import read_status
from ddetect.coordinator import server
from ddetect.coordinator.act import OnHang
from ddetect.coordinator.eventlog import read_log
from ddetect.coordinator.events import Ending, Heard, Keep, Lost, Record
from ddetect.coordinator.incidents import Incidents
from ddetect.coordinator.server import Coordinator, Options, check_listen
from ddetect.coordinator.state import JobState
from ddetect.errors import HostError, NetworkError, UsageError
from ddetect.messages import EndRanks, Hello, NodeBeat, NodeRoster
from ddetect.model import Beats, Incident, Roster, Settings, Snapshot
from ddetect.wire.channel import metadata, open_channel
from ddetect.wire.codec import decode_to_agent, encode_from_agent
from ddetect.wire.file import read_snapshot
from ddetect.wire.v1 import agent_pb2, agent_pb2_grpc
from tests.unit.report.incidents import loader_hang


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A short path: unix sockets must fit into 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dd-") as folder:
        yield Path(folder)


@asynccontextmanager
async def serving(
    run_dir: Path,
    listen: str = "",
    token: str | None = None,
    on_hang: OnHang | None = None,
    events: Path | None = None,
):
    job = JobState("night-run", Settings())
    listen = listen or f"unix:{run_dir}/c.sock"
    options = Options(run_dir, listen, token, on_hang or OnHang(), events=events)
    coordinator = Coordinator(job, Incidents(run_dir / "out"), options)
    (run_dir / "members.lock").touch()
    held = open(run_dir / "members.lock")  # noqa: SIM115 - held while the job lives
    import fcntl

    fcntl.flock(held, fcntl.LOCK_SH)
    running = asyncio.create_task(coordinator.run())
    while not (run_dir / "coordinator").exists():
        if running.done():
            running.result()
        await asyncio.sleep(0.01)
    try:
        yield coordinator, (run_dir / "coordinator").read_text().strip()
    finally:
        coordinator.done.set()
        await running
        held.close()


def beat() -> NodeBeat:
    columns = {item.name: [0, 0] for item in fields(Beats)} | {
        "step": [7, 7],
        "state": [83, 83],
        "has_page": [1, 1],
    }
    return NodeBeat(1, Beats(**columns))


def words() -> list[agent_pb2.AgentMessage]:
    roster = Roster([0, 1], [0, 0], [0, 0], [11, 12], [5, 6], ("node-0",))
    return [encode_from_agent(word) for word in (Hello("node-0", "j"), NodeRoster(1, 2, 0, roster), beat())]


def test_client_sees_what_an_agent_said(run_dir):
    """Every rank's step comes through the stream, the state machine and the status call."""

    async def scene() -> None:
        async with serving(run_dir) as (coordinator, target), open_channel(target) as channel:
            call = agent_pb2_grpc.CoordinatorStub(channel).Watch()
            for word in words():
                await call.write(word)
            while coordinator.job.nodes.world_size() != 2:
                await asyncio.sleep(0.01)
            view = await asyncio.to_thread(read_status, target)
            assert (view.job, view.world_size, view.beats.step.tolist()) == ("night-run", 2, [7, 7])
            assert [node.connected for node in view.nodes] == [True]
            call.cancel()
            while coordinator.job.nodes.node("node-0").connected:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_all_that_was_heard_is_written_to_the_file_that_was_asked_for(run_dir):
    """From the first event to the last word, though nothing was ever suspected."""

    async def scene() -> None:
        async with (
            serving(run_dir, events=run_dir / "all.ddlog") as (coordinator, target),
            open_channel(target) as channel,
        ):
            call = agent_pb2_grpc.CoordinatorStub(channel).Watch()
            for word in words():
                await call.write(word)
            while coordinator.job.nodes.world_size() != 2:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scene(), 120))
    events = [line.event for line in read_log((run_dir / "all.ddlog").read_bytes())]

    assert [type(event.message) for event in events if isinstance(event, Heard)][:2] == [Hello, NodeRoster]
    assert isinstance(events[-1], (Ending, Lost))


def test_stranger_without_the_token_is_turned_away(run_dir):
    """Neither agents nor clients get in, and the client says what to set."""

    async def scene() -> None:
        async with serving(run_dir, "127.0.0.1:0", "secret") as (coordinator, target):
            with pytest.raises(NetworkError, match="token"):
                await asyncio.to_thread(read_status, target, "wrong")
            async with open_channel(target) as channel:
                call = agent_pb2_grpc.CoordinatorStub(channel).Watch(metadata=metadata("wrong"))
                with pytest.raises(grpc.aio.AioRpcError):
                    await call.read()
            assert (await asyncio.to_thread(read_status, target, "secret")).job == "night-run"
            assert coordinator.job.nodes.nodes == {}

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_message_that_makes_no_sense_ends_its_stream_and_nothing_else(run_dir):
    """A broken agent is told why; the coordinator serves on."""

    async def scene() -> None:
        async with serving(run_dir) as (_, target), open_channel(target) as channel:
            call = agent_pb2_grpc.CoordinatorStub(channel).Watch()
            bad = agent_pb2.AgentMessage(beat=agent_pb2.NodeBeat())
            bad.beat.beats.columns.append("step")
            bad.beat.beats.numbers = b"no whole number"
            await call.write(words()[0])
            await call.write(bad)
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert (await asyncio.to_thread(read_status, target)).job == "night-run"

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_alarm_reaches_the_launcher_though_the_disk_is_full(run_dir):
    """The evidence may be lost with the disk; the alarm is not."""

    async def scene() -> None:
        async with serving(run_dir) as (coordinator, _):

            def full(*_: object) -> None:
                raise OSError(28, "No space left on device")

            coordinator.incidents.write = full  # type: ignore[method-assign, assignment]
            await coordinator._record(Record(loader_hang(), Snapshot(), alarm=True))
        assert "rank 2" in (run_dir / "alarm-001.txt").read_text()

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_newest_glance_is_kept_beside_the_job_and_no_incident_is_made_of_it(run_dir):
    """Whoever comes while it is only noticed can read it; a later one replaces it."""

    async def scene() -> None:
        async with serving(run_dir) as (coordinator, _):
            for job in ("first", "second"):
                coordinator._carry_out(Keep(Snapshot(job=job)))
            await asyncio.wait(coordinator._tasks)
            assert read_snapshot(run_dir / "noticed.ddsnap").job == "second"
            assert list((run_dir / "out").glob("incident-*")) == []

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_agents_are_told_to_end_the_ranks_once_the_evidence_is_on_disk(run_dir):
    """--on-hang=stop: first the folder, then the order, with our sentence for those that wait."""

    async def scene() -> None:
        async with (
            serving(run_dir, on_hang=OnHang("stop")) as (coordinator, target),
            open_channel(target) as channel,
        ):
            call = agent_pb2_grpc.CoordinatorStub(channel).Watch()
            for word in words():
                await call.write(word)
            while coordinator.job.nodes.world_size() != 2:
                await asyncio.sleep(0.01)
            incident = loader_hang()
            coordinator._carry_out(Record(incident, Snapshot(), alarm=True))
            while not isinstance(order := decode_to_agent(await call.read()), EndRanks):
                pass
            assert list((run_dir / "out").glob("*/verdict.json"))
            assert (order.sentence, order.waiting) == (
                f"ddetect: {incident.verdict.summary}",
                tuple(sorted({rank for one in incident.verdict.waiting for rank in one.ranks})),
            )
            assert coordinator.job.ending is not None  # what dies from now on dies as it should
            call.cancel()

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_alarm_names_the_folder_that_was_claimed(run_dir):
    """Another job of the same directory was faster: our number is the next one, wherever it is shown."""

    async def scene() -> None:
        async with serving(run_dir) as (coordinator, _):
            (run_dir / "out" / "incident-003").mkdir()
            await coordinator._record(Record(replace(loader_hang(), number=3), Snapshot(), alarm=True))
        assert "incident-004" in (run_dir / "summary.txt").read_text()
        assert list((run_dir / "out" / "incident-003").iterdir()) == []

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_alarm_names_no_folder_while_the_file_system_does_not_answer(run_dir, monkeypatch):
    """The claim that comes late may take another number: a path shown before it would be somebody else's."""
    monkeypatch.setattr(server, "WRITE_TIMEOUT_S", 0.05)
    answers = threading.Event()

    async def scene() -> None:
        async with serving(run_dir) as (coordinator, _):
            write = coordinator.incidents.write

            def late(incident: Incident, snapshot: Snapshot) -> Path:
                answers.wait(60)
                (run_dir / "out" / "incident-003").mkdir()  # another job's, meanwhile
                return write(incident, snapshot)

            coordinator.incidents.write = late  # type: ignore[method-assign]
            incident = replace(loader_hang(), number=3)
            try:
                await coordinator._record(Record(incident, Snapshot(), alarm=True))
                told = [(run_dir / name).read_text() for name in ("alarm-001.txt", "summary.txt")]
            finally:
                answers.set()
            assert all("its evidence is not written yet" in text for text in told)
            assert not any("incident-003" in text for text in told)
            while not coordinator.incidents.shown(incident):
                await asyncio.sleep(0.01)
            assert coordinator.incidents.shown(incident).endswith("incident-004")

    asyncio.run(asyncio.wait_for(scene(), 120))


def test_port_in_use_is_one_sentence_with_a_remedy(run_dir):
    """The launcher shows it and the job runs on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        async def scene() -> None:
            async with serving(run_dir, f"127.0.0.1:{taken.getsockname()[1]}"):
                pass

        with pytest.raises(HostError, match="cannot listen") as caught:
            asyncio.run(asyncio.wait_for(scene(), 120))
    assert "port" in caught.value.hint


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "node-0:29677", "[::]:5"])
def test_listening_beyond_loopback_wants_a_token(listen):
    """Closed by default."""
    with pytest.raises(UsageError, match="without a token"):
        check_listen(listen, None)
    check_listen(listen, "secret")
    check_listen("127.0.0.1:0", None)
