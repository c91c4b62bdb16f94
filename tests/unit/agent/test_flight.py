"""Asking a recorder, with a small HTTP server in place of torch's."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from ddetect.agent import flight
from ddetect.agent.flight import FlightReader
from ddetect.agent.members import JobProcess
from ddetect.host.proc import read_stat
from ddetect.model import Role
from tests.unit.agent.processes import make_run_dir
from tests.unit.stacks.targets import running, until

ENTRY = {
    "record_id": 0,
    "process_group": ["0", "default_pg"],
    "collective_seq_id": 1,
    "p2p_seq_id": 0,
    "profiling_name": "gloo:all_reduce",
    "state": "scheduled",
    "retired": True,
    "is_p2p": False,
}
GLOO = json.dumps({"version": "2.10", "entries": [ENTRY]})
NCCL_ENTRY = {**ENTRY, "profiling_name": "nccl:all_gather", "state": "completed"}
NCCL = json.dumps({"version": "2.10", "entries": [NCCL_ENTRY]})


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that hung up is what some of these tests are about."""


@contextmanager
def recorder(run_dir: str, pid: int, answers: dict[str, str], hold: threading.Event) -> Iterator[list[str]]:
    """Torch's server as the agent sees it: a list of handlers and their answers. Yields what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "agent"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return None

        def _send(self, text: str) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self._send(json.dumps([*answers, "dump_traceback"]))

        def do_POST(self) -> None:
            asked.append(self.path.rpartition("/")[2])
            hold.wait()
            self._send(answers[asked[-1]])

    server = _Server(os.path.join(run_dir, "sock", f"{pid}.sock"), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        hold.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _open() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


@pytest.fixture
def member() -> JobProcess:
    stat = read_stat(os.getpid())
    assert stat is not None
    return JobProcess(os.getpid(), stat.start_ticks, Role.RANK, 2)


def test_every_recorder_the_server_offers_is_asked_and_no_other_handler(
    run_dir: str, member: JobProcess
) -> None:
    """gloo's and NCCL's recorders are two; handlers that need the GIL are never touched."""
    answers = {"fr_trace_json": GLOO, "dump_nccl_trace_json": NCCL}
    with recorder(run_dir, member.pid, answers, _open()) as asked:
        told = FlightReader(run_dir).read(member)

    assert told.digest is not None
    assert ({"gloo", "nccl"}, 2, ["fr_trace_json", "dump_nccl_trace_json"]) == (
        {group.group.backend for group in told.digest.groups},
        told.digest.completed,
        asked,
    )


def test_rank_without_a_socket_has_no_recorder_yet(run_dir: str, member: JobProcess) -> None:
    """Before torch is up there is nothing to ask and nothing to report."""
    told = FlightReader(run_dir).read(member)

    assert (told.digest, told.reason) == (None, "")


def test_rank_that_does_not_answer_is_left_alone(
    run_dir: str, member: JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unanswered request may hold a thread of the rank's server: it is not asked again at once."""
    monkeypatch.setattr(flight, "TIMEOUT_S", 1.0)  # long enough for the list of handlers
    reader = FlightReader(run_dir)
    with recorder(run_dir, member.pid, {"fr_trace_json": GLOO}, threading.Event()) as asked:
        first = reader.read(member)
        second = reader.read(member)

    assert (
        "did not answer (1 s)" in first.reason,
        "a moment ago" in second.reason,
        len(asked),
    ) == (True, True, 1)


def test_one_request_is_in_flight_per_rank(
    run_dir: str, member: JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a rank has not answered, nobody asks it a second time."""
    monkeypatch.setattr(flight, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(flight, "_TURN_S", 0.05)
    reader = FlightReader(run_dir)
    hold = threading.Event()
    with recorder(run_dir, member.pid, {"fr_trace_json": GLOO}, hold) as asked:
        thread = threading.Thread(target=reader.read, args=(member,))
        thread.start()
        until(lambda: asked)
        second = reader.read(member)
        hold.set()
        thread.join()
        third = reader.read(member)

    assert (second.reason, len(asked)) == ("its Flight Recorder has not answered the question before", 2)
    assert third.digest is not None


def test_who_comes_while_another_asks_waits_for_a_turn(
    run_dir: str, member: JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow poll and evidence meet: both are answered, one after the other."""
    for name in ("TIMEOUT_S", "_TURN_S"):
        monkeypatch.setattr(flight, name, 60.0)
    reader = FlightReader(run_dir)
    hold = threading.Event()
    with ThreadPoolExecutor(2) as pool, recorder(run_dir, member.pid, {"fr_trace_json": GLOO}, hold) as asked:
        first = pool.submit(reader.read, member)
        until(lambda: asked)
        second = pool.submit(reader.read, member)
        wait([second], timeout=0.2)
        before = len(asked)
        hold.set()
        told = [first.result(60), second.result(60)]

    assert (before, len(asked), [one.reason for one in told]) == (1, 2, ["", ""])
    assert all(one.digest is not None for one in told)


def test_who_waited_for_a_turn_leaves_a_silent_rank_alone(
    run_dir: str, member: JobProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before got no answer: a second question would only hold a second thread of the server."""
    monkeypatch.setattr(flight, "TIMEOUT_S", 1.0)
    monkeypatch.setattr(flight, "_TURN_S", 60.0)
    reader = FlightReader(run_dir)
    hold = threading.Event()
    with ThreadPoolExecutor(2) as pool, recorder(run_dir, member.pid, {"fr_trace_json": GLOO}, hold) as asked:
        told = [pool.submit(reader.read, member) for _ in range(2)]
        reasons = sorted(one.result(60).reason for one in told)

    assert (len(asked), reasons) == (
        1,
        ["its Flight Recorder did not answer (1 s)", "its Flight Recorder did not answer a moment ago"],
    )


def test_dead_rank_is_not_asked_though_its_socket_answers(run_dir: str) -> None:
    """A forked child keeps the socket of a dead rank open: only the process tells."""
    with running("print('ready', flush=True); input()") as child:
        stat = read_stat(child.pid)
        assert stat is not None
    with recorder(run_dir, child.pid, {"fr_trace_json": GLOO}, _open()) as asked:
        told = FlightReader(run_dir).read(JobProcess(child.pid, stat.start_ticks, Role.RANK, 0))

    assert (told.reason, asked) == ("its process is gone", [])


def test_stopped_rank_is_not_asked(run_dir: str) -> None:
    """It could not answer, and two seconds would be lost."""
    with running("print('ready', flush=True); input()") as child:
        child.send_signal(signal.SIGSTOP)
        until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "T")
        stat = read_stat(child.pid)
        assert stat is not None
        with recorder(run_dir, child.pid, {"fr_trace_json": GLOO}, _open()) as asked:
            told = FlightReader(run_dir).read(JobProcess(child.pid, stat.start_ticks, Role.RANK, 0))

    assert ("stopped" in told.reason, asked) == (True, [])


@pytest.mark.parametrize("answer", ["not json", "{}", '{"version": "2.10", "entries": [{}]}'])
def test_answer_that_is_no_dump_is_a_reason(run_dir: str, member: JobProcess, answer: str) -> None:
    """A torch of another version may say something else: told, not raised."""
    with recorder(run_dir, member.pid, {"fr_trace_json": answer}, _open()):
        assert "unreadable" in FlightReader(run_dir).read(member).reason


def test_answer_that_is_no_mapping_is_a_reason(run_dir: str, member: JobProcess) -> None:
    """A list where a dump should be is refused like any other nonsense."""
    with recorder(run_dir, member.pid, {"fr_trace_json": "[1]"}, _open()):
        assert "unreadable" in FlightReader(run_dir).read(member).reason


def test_torch_without_a_recorder_handler_is_a_reason(run_dir: str, member: JobProcess) -> None:
    """An older torch offers other handlers: what is missing is said."""
    with recorder(run_dir, member.pid, {"ping": "ok"}, _open()):
        assert "no Flight Recorder handler" in FlightReader(run_dir).read(member).reason
