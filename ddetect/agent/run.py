"""The agent's life: look each second, keep the stream, leave when the job has left.

Enters: settings from the command line. Leaves: an exit code. The agent never outlives its job: it ends when
it can take `members.lock` for itself, which no launcher then holds, or when the run directory is gone.
Never here: looking (node.py), gRPC (link.py).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ddetect.agent.deaths import Deaths
from ddetect.agent.link import Link
from ddetect.agent.node import Node
from ddetect.messages import FromAgent, ToAgent

BEAT_S = 1.0
LAST_WORDS_S = 0.7


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the command line decides."""

    run_dir: str
    coordinator: str | None = None  # HOST:PORT; else what RUN/coordinator says
    token: str | None = None
    node: str = ""
    job: str = ""


def run_agent(settings: AgentSettings) -> int:
    """Run until the job is over or SIGTERM comes."""
    return asyncio.run(_live(settings))


async def _live(settings: AgentSettings) -> int:
    loop = asyncio.get_running_loop()
    stop, wake = asyncio.Event(), asyncio.Event()

    def leave() -> None:
        stop.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    deaths = Deaths(loop.add_reader, loop.remove_reader, wake.set)
    node = Node(
        settings.run_dir,
        name=settings.node or socket.gethostname(),
        job=settings.job or read_job(settings.run_dir),
        deaths=deaths.seen,
    )
    orders = ThreadPoolExecutor(4, "ddetect-order")

    async def obey(order: ToAgent) -> FromAgent | None:
        return await loop.run_in_executor(orders, node.answer, order)

    link = Link(
        lambda: settings.coordinator or read_target(settings.run_dir), settings.token, node.retell, obey
    )
    held = asyncio.ensure_future(link.hold())
    try:
        due = loop.time()
        while not stop.is_set() and not job_is_over(settings.run_dir):
            wake.clear()
            link.say(node.tick())
            deaths.watch(node.census.watched())
            due = max(due + BEAT_S, loop.time() + BEAT_S / 10)  # after a standstill, go on; do not catch up
            try:
                await asyncio.wait_for(wake.wait(), due - loop.time())
            except asyncio.TimeoutError:
                pass  # the next beat
        link.say(node.tick())  # who died with the job is told before we go
        await link.finish(LAST_WORDS_S)
    finally:
        deaths.close()
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        orders.shutdown(wait=False, cancel_futures=True)
        node.close()
    return 0


def job_is_over(run_dir: str) -> bool:
    """Whether no launcher holds the run directory any more. One without a lock file (a sidecar's) is never over."""
    try:
        handle = os.open(os.path.join(run_dir, "members.lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return not os.path.isdir(run_dir)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def read_target(run_dir: str) -> str | None:
    """Where the coordinator listens; None until it does."""
    try:
        with open(os.path.join(run_dir, "coordinator"), encoding="utf-8") as handle:
            return handle.read().strip() or None
    except OSError:
        return None


def read_job(run_dir: str) -> str:
    """The job's id: from the environment, else as the launcher wrote it."""
    if os.environ.get("DDETECT_JOB"):
        return os.environ["DDETECT_JOB"]
    try:
        with open(os.path.join(run_dir, "job.json"), encoding="utf-8") as handle:
            return str(json.load(handle).get("job", ""))
    except (OSError, ValueError, AttributeError):
        return ""
