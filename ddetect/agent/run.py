"""The agent's life: look each second, keep the stream, leave when the job has left.

Enters: settings from the command line. Leaves: an exit code. The agent never outlives its job: it ends when
it can take `members.lock` for itself, which no launcher then holds, or when the run directory is gone.
What a launcher says of the job's end is heard at once, and told before the deaths that it explains.
Never here: looking (node.py), gRPC (link.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ddetect_launcher.place import remove_if_abandoned
from ddetect_probe import rundir

from ddetect.agent.deaths import Deaths
from ddetect.agent.launchers import KnownDeaths, Launchers
from ddetect.agent.link import Link
from ddetect.agent.node import Node
from ddetect.messages import EndRanks, FromAgent, ToAgent

BEAT_S = 1.0
LAST_WORDS_S = 0.7
COORDINATOR_LEAVES_S = 3.5
ENDED_WITHIN_S = 1.2
ORDERS_WITHIN_S = 1.0
SETTLE_S = 0.1
"""Between a death and the look that tells it. Ctrl-C reaches launcher and job at once: the launcher's word for it, and
the wait status of its child, get the time to come first, and a rank's death does not part from those that follow it."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the command line decides."""

    run_dir: str
    coordinator: str | None = None  # HOST:PORT; else what RUN/coordinator says
    token: str | None = None
    node: str = ""
    job: str = ""


def run_agent(settings: AgentSettings) -> int:
    """Run until the job is over or SIGTERM comes. Where no launcher is left to tidy up, we do."""
    code = asyncio.run(_live(settings))
    _tidy_up(settings.run_dir)
    deadline = time.monotonic() + ORDERS_WITHIN_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name.startswith("ddetect-"):
            thread.join(max(0.0, deadline - time.monotonic()))
            if (
                thread.is_alive()
            ):  # a dumper that takes its time; Python would wait for it, and the job is over
                sys.stderr.flush()
                os._exit(code)
    return code


def _tidy_up(run_dir: str) -> None:
    """Remove the run directory of a launcher that was killed, once the coordinator beside us has left it too."""
    if not rundir.job_is_over(run_dir):
        return  # its launcher is there, and tidies up itself
    deadline = time.monotonic() + COORDINATOR_LEAVES_S
    while rundir.is_held(rundir.lock_path(run_dir, "coordinator")) and time.monotonic() < deadline:
        time.sleep(0.05)
    remove_if_abandoned(run_dir)


async def _live(settings: AgentSettings) -> int:
    loop = asyncio.get_running_loop()
    stop, wake = asyncio.Event(), asyncio.Event()

    def leave() -> None:
        stop.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    settled_at = 0.0

    def look_soon() -> None:
        nonlocal settled_at
        if settled_at <= loop.time():
            settled_at = loop.time() + SETTLE_S
        wake.set()

    deaths = Deaths(loop.add_reader, loop.remove_reader, look_soon)
    launchers = Launchers(settings.run_dir)
    if launchers.fileno() >= 0:
        loop.add_reader(launchers.fileno(), lambda: wake.set() if launchers.hear() else None)
    node = Node(
        settings.run_dir,
        name=settings.node or socket.gethostname(),
        job=settings.job or read_job(settings.run_dir),
        deaths=KnownDeaths(deaths.seen, launchers.ended),
        words=launchers.take,
    )
    orders = ThreadPoolExecutor(4, "ddetect-order")

    ending: set[asyncio.Future[FromAgent]] = set()

    async def obey(order: ToAgent) -> FromAgent | None:
        work: asyncio.Future[FromAgent] = loop.run_in_executor(orders, node.answer, order)
        if isinstance(order, EndRanks):
            ending.add(work)
            work.add_done_callback(ending.discard)
        return await work

    link = Link(
        lambda: settings.coordinator or read_target(settings.run_dir), settings.token, node.retell, obey
    )
    held = asyncio.ensure_future(link.hold())
    try:
        due = loop.time()
        while not stop.is_set() and not rundir.job_is_over(settings.run_dir):
            wake.clear()
            await asyncio.sleep(max(0.0, settled_at - loop.time()))
            link.say(node.tick())
            deaths.watch(node.census.watched())
            due = max(due + BEAT_S, loop.time() + BEAT_S / 10)  # after a standstill, go on; do not catch up
            try:
                await asyncio.wait_for(wake.wait(), due - loop.time())
            except asyncio.TimeoutError:
                pass  # the next beat
        node.hurry()
        if (
            ending
        ):  # the ranks that we end are gone, and the launcher with them; who worked for them may not be yet
            await asyncio.wait(ending, timeout=ENDED_WITHIN_S)
            await asyncio.sleep(0.01)  # the answer goes its way
        link.say(node.tick())  # who died with the job is told before we go
        await link.finish(LAST_WORDS_S)
    finally:
        deaths.close()
        if launchers.fileno() >= 0:
            loop.remove_reader(launchers.fileno())
        launchers.close()
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        orders.shutdown(wait=False, cancel_futures=True)
        node.close()
    return 0


def read_target(run_dir: str) -> str | None:
    """Where the coordinator listens; None until it does."""
    return rundir.read_coordinator(run_dir) or None


def read_job(run_dir: str) -> str:
    """The job's id: from the environment, else as the launcher wrote it."""
    about = rundir.read_about(run_dir)
    return os.environ.get("DDETECT_JOB") or (about.job if about is not None else "")
