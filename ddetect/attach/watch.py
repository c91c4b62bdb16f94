"""Watch the job that was found until it ends: look, feed the coordinator's state machine, carry out what it answers.

Enters: a JobScan that has chosen its job. Leaves: incident folders, reports on stdout, one-line news on stderr, an exit
code. The beat tells what looks tell (`Stillness`); deaths come from the kernel. All it does to the job is
py-spy's pause of some milliseconds, seldom. Never here: rules; a signal to a process.
"""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddetect_launcher.tf_config import parse_tf_config
from typing_extensions import assert_never

from ddetect.agent.deaths import Deaths
from ddetect.agent.members import JobProcess
from ddetect.agent.node import Node
from ddetect.agent.pages import Told, ToldLane
from ddetect.attach.find import JobScan
from ddetect.attach.still import Stillness
from ddetect.coordinator.desk import Desk
from ddetect.coordinator.events import (
    Ask,
    Ending,
    Event,
    Heard,
    Judge,
    Judged,
    Keep,
    Note,
    Record,
    Tick,
    Withdraw,
)
from ddetect.coordinator.incidents import Incidents
from ddetect.coordinator.opinion import Case, form_opinion
from ddetect.coordinator.state import JobState
from ddetect.frameworks import FRAMEWORKS
from ddetect.frameworks.general import GENERAL
from ddetect.host.framework import Frameworks
from ddetect.host.proc import read_cmdline, read_environ
from ddetect.messages import Evidence, NodeGone, TakeEvidence, ToAgent
from ddetect.model import Departure, Gone, Incident, Role, Settings, Snapshot, Stage, Status
from ddetect.report.words import name_members

TICK_S = 1.0
LOOK_S = 5.0
LOOK_SHARE = 0.05  # of the time at most is spent looking: a crowded node is looked at more seldom
SUSPECT_AFTER_S = 10.0
RESTART_S = 30.0  # torchrun starts the ranks again, or ends, within this
_RESTARTS = re.compile(r"torchrun|torch\.distributed|accelerate")
_IN_RHYTHM = (
    20  # nobody counts steps, so nobody waits for a number of them: limits hold from the first look on
)


def settings_for(patience_s: float) -> Settings:
    """Judge as always, but suspect nobody before looks have been alike for a while."""
    return Settings(patience_s=patience_s, floor_s=SUSPECT_AFTER_S, startup_s=SUSPECT_AFTER_S)


class Watched:
    """One job's processes on this host, and how still they are. `look` blocks; use it from one thread at a time."""

    def __init__(self, scan: JobScan, deaths: Deaths | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ddetect-attach-")
        self._frameworks = Frameworks()
        self._tasks: dict[tuple[int, int], str] = {}
        self.still = Stillness(GENERAL)
        self.name = socket.gethostname()
        self.node = Node(
            self._folder.name,
            name=self.name,
            job=scan.name,
            deaths=deaths.seen if deaths else None,
            scan=scan,
            tell=self._tell,
            probes=False,
        )

    def close(self) -> None:
        """Let go of threads and of the empty run directory."""
        self.node.close()
        self._folder.cleanup()

    def look(self, order: ToAgent) -> Evidence | None:
        """Take evidence, and note who has moved since the last."""
        name = self._frameworks.most or Snapshot.framework
        self.still.framework = FRAMEWORKS.get(name, GENERAL)
        if isinstance(order, TakeEvidence):
            order = replace(order, light=False)  # looks are compared: all of them must be whole
        evidence = self.node.answer(order)
        if not isinstance(evidence, Evidence):
            return None
        self.still.see(evidence.look, time.monotonic())
        return evidence

    def _tell(self, member: JobProcess, now_ns: int) -> Told:
        age_s = self.still.age_s(member.rank, now_ns / 1e9)
        return Told(
            lanes=(ToldLane(calls=_IN_RHYTHM, activity_age_s=age_s),),
            framework=self._frameworks.of(member.pid, member.start_ticks),
            task=self._task_of(member),
        )

    def _task_of(self, member: JobProcess) -> str:
        """How its cluster calls it, read once: the environment of a process does not change."""
        if member.key not in self._tasks:
            cluster = parse_tf_config(read_environ(member.pid).get("TF_CONFIG"))
            self._tasks[member.key] = cluster.task if cluster is not None else ""
        return self._tasks[member.key]


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where words go."""

    report: Callable[[Incident, Snapshot, Path], None]  # an alarm, to stdout
    say: Callable[[str], None]  # a line of news, to stderr


class AttachLoop:
    """The loop around one job."""

    def __init__(self, scan: JobScan, settings: Settings, incidents: Incidents, outlets: Outlets) -> None:
        self._scan, self._incidents, self._outlets = scan, incidents, outlets
        self._job = JobState(scan.name, settings, first_number=incidents.next_number())
        self._desk = Desk(self._job, outlets.say)
        self._pool = ThreadPoolExecutor(1, "ddetect-look")
        self._judges = ThreadPoolExecutor(1, "ddetect-judge")
        self._busy: set[asyncio.Task[None]] = set()
        self._next_look = 0.0
        self._last: Incident | None = None
        self._told_unread = False
        self._empty_since: float | None = None

    def run(self) -> int:
        """Until the job ends, or ctrl-C. Returns 3 if an alarm is open then, 4 if that names nobody, else 0."""
        return asyncio.run(self._live())

    async def _live(self) -> int:
        loop = asyncio.get_running_loop()
        stop, wake = asyncio.Event(), asyncio.Event()

        def leave() -> None:
            stop.set()
            wake.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, leave)
        deaths = Deaths(loop.add_reader, loop.remove_reader, wake.set)
        watched = Watched(self._scan, deaths)
        try:
            while not stop.is_set():
                wake.clear()
                self._hear(watched)
                deaths.watch([*watched.node.census.ranks(), *watched.node.census.helpers()])
                if self._is_over(watched.node.census.ranks()):
                    await self._end(watched)
                    break
                self._handle(Tick(), watched)
                watch = self._job.watch
                unasked = watch is None or watch.noticed  # nobody but us counts what moves meanwhile
                idle = not self._busy and unasked and self._empty_since is None
                if idle and time.monotonic() >= self._next_look:
                    self._start(self._look(TakeEvidence(0), watched))
                try:
                    await asyncio.wait_for(wake.wait(), TICK_S)
                except asyncio.TimeoutError:
                    pass  # the next beat
            if stop.is_set():
                self._outlets.say("left the job as it is")
        finally:
            deaths.close()
            for task in self._busy:
                task.cancel()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._judges.shutdown(wait=False, cancel_futures=True)
            watched.close()
        return self._exit_code()

    def _is_over(self, ranks: list[JobProcess]) -> bool:
        """No rank lives, and no launcher that could start them again."""
        if any(not member.gone for member in ranks):
            self._empty_since = None
            return False
        now = time.monotonic()
        self._empty_since = now if self._empty_since is None else self._empty_since
        may_restart = any(_RESTARTS.search(" ".join(read_cmdline(member.parent))) for member in ranks)
        return not may_restart or now - self._empty_since > RESTART_S

    # ------------------------------------------------------------ events and commands

    def _hear(self, watched: Watched) -> None:
        for message in watched.node.tick():
            if isinstance(message, NodeGone):
                message = NodeGone(tuple(self._well_meant(gone) for gone in message.gone))
            self._handle(Heard(watched.name, message), watched)

    def _well_meant(self, gone: Gone) -> Gone:
        """Its parent waited for it before we could read how it ended: say so, and accuse nobody."""
        if gone.how is not Departure.VANISHED or gone.signal or gone.role is not Role.RANK:
            return gone
        self._outlets.say(f"rank {gone.rank} (pid {gone.pid}) has ended; how was not to be seen")
        return replace(gone, how=Departure.EXITED)

    def _handle(self, event: Event, watched: Watched) -> None:
        for command in self._desk.take(event):
            match command:
                case Ask(_, message):
                    self._start(self._look(message, watched))
                case Judge(case):
                    self._start(self._judge(case, watched))
                case Record():
                    self._record(command)
                case Withdraw():
                    self._withdraw(command)
                case Keep() | Note():
                    pass  # nobody asks for the status of this one, and all it says is said here
                case _:
                    assert_never(command)

    async def _judge(self, case: Case, watched: Watched) -> None:
        opinion = await asyncio.get_running_loop().run_in_executor(self._judges, form_opinion, case)
        self._handle(Judged(opinion), watched)

    async def _look(self, order: ToAgent, watched: Watched) -> None:
        began = time.monotonic()
        evidence = await asyncio.get_running_loop().run_in_executor(self._pool, watched.look, order)
        lasted = time.monotonic() - began
        self._next_look = time.monotonic() + max(LOOK_S, lasted / LOOK_SHARE)
        if evidence is None:
            return
        if evidence.look.unread and not self._told_unread:
            self._told_unread = True
            for item in evidence.look.unread:
                self._outlets.say(f"{name_members(item.ranks)}: {item.reason}")
        if evidence.request:
            self._handle(Heard(watched.name, evidence), watched)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        """A look that failed is said, and the next one is taken: a watcher that goes blind must not look content."""
        self._busy.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._next_look = time.monotonic() + LOOK_S
            self._outlets.say(f"a look failed: {error!r}")

    def _record(self, record: Record) -> None:
        """Keep it, then say it; a disk that is full does not silence an alarm."""
        problem = ""
        try:
            self._incidents.write(record.incident, record.snapshot)
            events = self._desk.events_of(record.incident)
            self._incidents.add_events(record.incident, events, is_cut=self._desk.is_cut)
        except OSError as error:
            problem = str(error)
        # Only now: the folder is claimed when it is written, and its number is the one to be shown.
        incident = self._last = self._incidents.numbered(record.incident)
        folder = self._incidents.folder(record.incident)
        if problem:
            self._outlets.say(f"could not write {folder}: {problem}")
        if record.alarm:
            self._outlets.report(incident, record.snapshot, folder)
        elif incident.closed is not None:
            self._outlets.say(f"{folder.name} is closed: {incident.closed.reason}")
        else:
            self._outlets.say(f"{incident.stage.value}: {incident.verdict.summary} ({folder})")

    def _withdraw(self, what: Withdraw) -> None:
        """It was nothing."""
        self._last = None
        try:
            self._incidents.withdraw(what.incident, what.reason, what.lasted_s, what.at_unix_ns)
        except OSError as error:
            self._outlets.say(f"could not write to {self._incidents.out}: {error}")
        self._outlets.say(f"it was nothing: {what.reason}")

    async def _end(self, watched: Watched) -> None:
        """The last rank is gone: give the errors of the others a moment, then say the last word."""
        if self._busy:
            await asyncio.wait(self._busy, timeout=LOOK_S)
        self._hear(watched)
        bad = any(gone.is_death for gone, _ in self._job.gone)
        self._handle(Ending("the job ended", int(bad)), watched)
        if self._busy:
            await asyncio.wait(self._busy, timeout=LOOK_S)
        self._outlets.say("the job has ended" + (" after an error" if bad else ""))

    def _exit_code(self) -> int:
        """What stands at the end: an incident that closed because the job went on is no longer one."""
        last = self._last
        if last is None or last.confirmed_at_unix_ns is None:
            return 0
        if last.closed is not None and last.closed.recovered:
            return 0
        return 4 if last.verdict.status is Status.UNDECIDED else 3 if last.stage is not Stage.SUSPECTED else 0


def print_news(text: str) -> None:
    """A line on stderr."""
    print(f"ddetect: {text}", file=sys.stderr, flush=True)
