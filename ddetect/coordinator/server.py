"""The coordinator process: gRPC in front of the state machine, a clock behind it.

Enters: agents' streams, clients' questions, SIGTERM. Leaves: commands carried out (questions to agents, cases judged in
a thread of their own, incident folders, alarms) and three small files for the launcher: status.txt, alarm-NNN.txt,
summary.txt. Never here: a rule about the job; those are in state.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio
from ddetect_probe import rundir
from typing_extensions import assert_never

from ddetect.coordinator import act
from ddetect.coordinator.desk import Desk
from ddetect.coordinator.events import (
    Ask,
    Command,
    Ending,
    Event,
    Heard,
    Judge,
    Judged,
    Keep,
    Lost,
    Note,
    Record,
    Tick,
    Withdraw,
)
from ddetect.coordinator.incidents import Incidents, write_text
from ddetect.coordinator.opinion import Case, form_opinion
from ddetect.coordinator.state import JobState
from ddetect.coordinator.view import status_line, status_response
from ddetect.errors import HostError, NetworkError, UsageError
from ddetect.messages import Hello, JobEnds, ToAgent
from ddetect.model import Incident, Snapshot
from ddetect.report.text import format_report
from ddetect.wire.channel import OPTIONS, admits
from ddetect.wire.codec import decode_from_agent, encode_to_agent
from ddetect.wire.file import write_snapshot
from ddetect.wire.v1 import agent_pb2, agent_pb2_grpc, client_pb2, client_pb2_grpc

TICK_S = 0.25
WRITE_TIMEOUT_S = 5.0
ALL_EVENTS_TICKS = 20  # between two pieces of the whole job's log
JUDGE_TIMEOUT_S = 1.5  # for the last judgement; the launcher waits for us
log = logging.getLogger("ddetect.coordinator")
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class Options:
    """How this coordinator serves."""

    run_dir: Path | None
    listen: str  # "unix:/…/c.sock" or "HOST:PORT"
    token: str | None = None
    on_hang: act.OnHang = field(default_factory=act.OnHang)
    notify: str = ""
    events: Path | None = None  # where every event of the job goes, for who tunes the rules


class Coordinator(agent_pb2_grpc.CoordinatorServicer, client_pb2_grpc.ClientServicer):
    """Serves one job."""

    def __init__(self, job: JobState, incidents: Incidents, options: Options) -> None:
        self.job = job
        self.desk = Desk(job, self._say_fault, keep_all=options.events is not None)
        self.incidents = incidents
        self.options = options
        self._outboxes: dict[str, asyncio.Queue[ToAgent]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # One thread: what is written later replaces what was written earlier.
        self._writer = ThreadPoolExecutor(1, "ddetect-write")
        self._judges = ThreadPoolExecutor(1, "ddetect-judge")
        self._judging: set[asyncio.Task[None]] = set()
        self._alarms = _alarms_told(options.run_dir)
        self._line = ""
        self._launcher_gone = False
        self._last_word: Ending | None = None  # kept until the agents had theirs
        self.done = asyncio.Event()

    # ------------------------------------------------------------ what others call

    async def Watch(
        self, stream: AsyncIterator[agent_pb2.AgentMessage], context: Context
    ) -> AsyncIterator[agent_pb2.CoordinatorMessage]:
        """One agent's stream: its words become events, our questions go back."""
        await self._admit(context)
        outbox: asyncio.Queue[ToAgent] = asyncio.Queue()
        listener = asyncio.create_task(self._listen(stream, outbox))
        try:
            while True:
                question = asyncio.create_task(outbox.get())
                done, _ = await asyncio.wait({question, listener}, return_when=asyncio.FIRST_COMPLETED)
                if question not in done:
                    question.cancel()
                    listener.result()  # a bad message ends the stream with its reason
                    return
                yield encode_to_agent(question.result())
        except NetworkError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            listener.cancel()
            for name in [name for name, box in self._outboxes.items() if box is outbox]:
                del self._outboxes[name]
                self.handle(Lost(name))

    async def Status(self, request: client_pb2.StatusRequest, context: Context) -> client_pb2.StatusResponse:
        """Every rank's step, phase and age."""
        await self._admit(context)
        watch = self.job.watch
        folder = self.incidents.shown(watch.incident if watch else None)
        return status_response(self.job, time.monotonic(), folder)

    async def _admit(self, context: Context) -> None:
        if not admits(self.options.token, tuple(context.invocation_metadata() or ())):
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "wrong or missing token: set DDETECT_TOKEN to the same on all nodes",
            )

    async def _listen(
        self, stream: AsyncIterator[agent_pb2.AgentMessage], outbox: asyncio.Queue[ToAgent]
    ) -> None:
        node = ""
        async for raw in stream:
            message = decode_from_agent(raw)
            if isinstance(message, Hello):
                node = message.node
                self._outboxes[node] = outbox
            if not node:
                raise NetworkError("an agent spoke before it said its name")
            if isinstance(message, JobEnds) and message.exit_code is not None:
                self._note_exit(message.exit_code)
            self.handle(Heard(node, message), raw.SerializeToString())

    # ------------------------------------------------------------ events and commands

    def handle(self, event: Event, raw: bytes = b"") -> None:
        """Give the state machine one event and carry out what it answers."""
        for command in self.desk.take(event, raw):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Ask(node, message):
                if node in self._outboxes:
                    self._outboxes[node].put_nowait(message)
            case Judge(case):
                task = asyncio.create_task(self._judge(case))
                self._judging.add(task)
                task.add_done_callback(self._judging.discard)
            case Record():
                self._start(self._record(command, self.desk.events_of(command.incident)))
            case Withdraw():
                self._start(self._withdraw(command))
            case Keep(snapshot):
                self._start(self._keep(snapshot))
            case Note(incident):
                if self.options.notify:
                    folder = self.incidents.shown(incident)
                    numbered = self.incidents.numbered(incident)
                    self._start(act.notify(self.options.notify, numbered, folder, alarm=False))
            case _:
                assert_never(command)

    async def _judge(self, case: Case) -> None:
        """Off the loop: beats are heard and ticks pass meanwhile."""
        opinion = await asyncio.get_running_loop().run_in_executor(self._judges, form_opinion, case)
        if opinion.fault:
            log.error("could not judge: %s", opinion.fault)
        self.handle(Judged(opinion))

    async def _withdraw(self, what: Withdraw) -> None:
        def withdraw() -> None:
            self.incidents.withdraw(what.incident, what.reason, what.lasted_s, what.at_unix_ns)

        log.info("withdrawn: %s (%s)", what.incident.verdict.summary, what.reason)
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, withdraw)
        except OSError as error:
            log.warning("could not write to %s: %s", self.incidents.out, error)

    async def _keep(self, snapshot: Snapshot) -> None:
        """The newest glance at a job that stands still within the usual, for whoever comes while it does."""
        if self.options.run_dir is None:
            return
        path = self.options.run_dir / rundir.NOTICED
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, write_snapshot, path, snapshot)
        except OSError as error:
            log.warning("could not keep a glance: %s", error)

    async def _add_events(self, incident: Incident) -> None:
        piece, is_cut = self.desk.events_of(incident), self.desk.is_cut

        def add() -> None:
            self.incidents.add_events(incident, piece, is_cut=is_cut)

        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, add)
        except OSError as error:
            log.warning("could not write events: %s", error)

    async def _keep_events(self) -> None:
        """Add to the log of the whole job, if anybody wants it."""
        path, piece = self.options.events, self.desk.all_events()
        if path is None or not piece:
            return

        def add() -> None:
            with open(path, "ab") as handle:
                handle.write(piece)

        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, add)
        except OSError as error:
            log.warning("could not write %s: %s", path, error)

    async def _record(self, record: Record, events: bytes = b"") -> None:
        """Write an incident, then alarm; a full disk or a hung file system delays an alarm, it never swallows it."""
        is_cut = self.desk.is_cut

        def write() -> None:
            self.incidents.write(record.incident, record.snapshot)
            self.incidents.add_events(record.incident, events, is_cut=is_cut)

        writing = asyncio.get_running_loop().run_in_executor(self._writer, write)
        problem = ""
        try:
            await asyncio.wait_for(asyncio.shield(writing), WRITE_TIMEOUT_S)
        except (OSError, asyncio.TimeoutError) as error:
            problem = str(error) or "the file system does not answer"
        # Only now: the folder is claimed when it is written, and its number is the one to be shown.
        incident, folder = self.incidents.numbered(record.incident), self.incidents.shown(record.incident)
        name = Path(folder).name or "an incident that is not written yet"
        log.info("%s: %s %s", name, incident.stage.value, incident.verdict.summary)
        if problem:
            log.warning("could not write %s: %s", name, problem)
        if record.alarm:
            self._tell_launcher(incident, folder)
            self._alarm(incident, folder)
        elif incident.closed is not None and incident.confirmed_at_unix_ns is not None:
            self._print(f"ddetect: {name} is closed: {incident.closed.reason}\n")

    def _alarm(self, incident: Incident, folder: str) -> None:
        on_hang = self.options.on_hang
        if self.options.notify:
            self._start(act.notify(self.options.notify, incident, folder))
        if on_hang.kind == "exec":
            self._start(act.run_command(on_hang.command, incident, folder))
        elif on_hang.kind == "stop" and incident.verdict.status.value == "hang":
            self.handle(Ending("ddetect ended the ranks (--on-hang=stop)", by_us=True))
            for outbox in self._outboxes.values():
                outbox.put_nowait(act.end_ranks(incident))

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ the launcher's files

    def _tell_launcher(self, incident: Incident, folder: str) -> None:
        missing = "" if folder else f"ddetect: {act.NOT_WRITTEN}\n"
        self._print(format_report(incident, folder=folder or None) + missing)
        if self.options.run_dir is None:
            return
        found = f"ddetect: evidence in {folder}; next: ddetect diagnose {Path(folder) / 'snapshot.ddsnap'}\n"
        write_text(
            self.options.run_dir / rundir.SUMMARY, f"ddetect: {incident.verdict.summary}\n{missing or found}"
        )

    def _print(self, text: str) -> None:
        """Have the launcher print this to the user's terminal, once."""
        if self.options.run_dir is not None:
            self._alarms += 1
            write_text(self.options.run_dir / rundir.alarm_name(self._alarms), text)

    def _paint(self) -> None:
        line = status_line(self.job, time.monotonic())
        if self.options.run_dir is not None and line != self._line:
            self._line = line
            write_text(self.options.run_dir / rundir.STATUS, line + "\n")

    def _note_exit(self, code: int) -> None:
        """A launcher's job has ended. Nodes end one by one, and what one of them calls an error is one."""
        if self._last_word is None or not self._last_word.exit_code:
            self._last_word = Ending(f"the job ended with exit code {code}", code)

    def _say_fault(self, text: str) -> None:
        self._print(f"ddetect: {text}.\n")

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        """Serve until the job is over. Raises HostError when we cannot listen."""
        server = grpc.aio.server(options=list(OPTIONS))
        agent_pb2_grpc.add_CoordinatorServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        client_pb2_grpc.add_ClientServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        try:
            port = server.add_insecure_port(self.options.listen)
        except RuntimeError as error:
            raise HostError(
                f"cannot listen on {self.options.listen}: {error}",
                hint="Is the port in use? Choose another: --coordinator HOST:PORT on all nodes.",
            ) from error
        await server.start()
        if self.options.run_dir is not None:
            target = self.options.listen
            if not target.startswith("unix:"):
                target = f"{target.rpartition(':')[0]}:{port}"
            write_text(self.options.run_dir / rundir.COORDINATOR, target + "\n")
        log.info("listening on %s", self.options.listen)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.done.set)
        ticks = 0
        while not self.done.is_set():
            self.handle(Tick())
            watch = self.job.watch
            if self.desk.has_many and watch is not None and watch.incident is not None:
                self._start(self._add_events(watch.incident))
            if ticks % ALL_EVENTS_TICKS == 0:
                self._start(self._keep_events())
            if ticks % 4 == 0:
                try:
                    self._paint()
                except (OSError, ValueError) as error:
                    log.warning("could not write the status line: %s", error)
                self._launcher_gone = self._job_is_over()
                if self._launcher_gone:
                    break
            ticks += 1
            try:
                await asyncio.wait_for(self.done.wait(), TICK_S)
            except asyncio.TimeoutError:
                pass
        await self._last_words()
        await server.stop(0.2)

    async def _last_words(self) -> None:
        """The agents have said theirs (the launcher ends them first): judge, and let notifications go out."""
        self.handle(self._last_word or self._abandoned())
        if self._judging:
            await asyncio.wait(self._judging, timeout=JUDGE_TIMEOUT_S)
        if self.job.watch is not None:  # its last judgement did not come in time
            self.handle(self._last_word or self._abandoned())
        self._start(self._keep_events())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)
        self._writer.shutdown(wait=False, cancel_futures=True)

    def _abandoned(self) -> Ending:
        """Nobody said how the job ended: who would have said so is gone, or we are sent away."""
        if not self._launcher_gone:
            return Ending("ddetect was ended; how the job goes on was not seen", abandoned=True)
        pids = [str(pid) for pid in self.job.nodes.roster().pid.tolist() if os.path.exists(f"/proc/{pid}")]
        may = f"; pids {', '.join(pids[:16])} may still run" if pids else ""
        return Ending(f"its launcher was killed{may}", abandoned=True)

    def _job_is_over(self) -> bool:
        """No launcher holds the lock any more, not even a killed one: we must not outlive the job."""
        return self.options.run_dir is not None and rundir.job_is_over(str(self.options.run_dir))


def _alarms_told(run_dir: Path | None) -> int:
    """How many alarms a coordinator before us has handed to the launcher."""
    return (
        sum(bool(rundir.ALARM.fullmatch(path.name)) for path in run_dir.iterdir())
        if run_dir is not None
        else 0
    )


def check_listen(listen: str, token: str | None) -> None:
    """Closed by default: beyond loopback we want a token. Raises UsageError."""
    if listen.startswith("unix:") or token:
        return
    host = listen.rpartition(":")[0].strip("[]")
    if host not in ("localhost", "::1") and not host.startswith("127."):
        raise UsageError(
            f"will not listen on {listen} without a token",
            hint="Set DDETECT_TOKEN to the same secret on all nodes.",
        )
