"""What a look costs: the agent, its dumpers, and the job that is looked at; full and light, with few threads and many.

Enters: nothing (a torch job of 8 ranks with 4 loader workers each, all of which stand still). Leaves: `measure()`.
CPU time is counted, not wall time alone, for this machine is noisy; what the job pays is counted in turns on a CPU that
its blocked threads were given: none is none.
"""

from __future__ import annotations

import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ddetect_probe

from ddetect.agent.meter import Meter
from ddetect.agent.node import Node
from ddetect.host.proc import read_runs
from ddetect.messages import TakeEvidence

JOB = Path(__file__).with_name("stuck_job.py")
BOOTSTRAP = Path(ddetect_probe.__file__).parent / "bootstrap"
STARTS_WITHIN_S = 300.0


@dataclass(frozen=True)
class Cost:
    """Of one look, medians over some."""

    wall_ms: float
    agent_ms: float  # CPU
    dumpers_ms: float  # CPU
    woken: float  # turns on a CPU for each main thread of a rank that waits


def measure(ranks: int = 8, workers: int = 4, threads: int = 200, rounds: int = 7) -> dict[str, Cost]:
    """Looks at a job as it is, and at one whose last rank has many idle threads."""
    costs: dict[str, Cost] = {}
    for more in (0, threads):
        with _stuck(ranks, workers, more) as node:
            for name, light in (("full look", False), ("light look", True)):
                beside = f", {more} idle threads in a rank" if more else ""
                costs[name + beside] = _cost(node, rounds, light=light)
    return costs


def thread_us(threads: int = 200, rounds: int = 20) -> float:
    """CPU of the meter for one thread of a process that stands still, in a full look: counted before and after."""
    code = f"""
import threading
for _ in range({threads}): threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""
    from tests.unit.agent.looking import process
    from tests.unit.stacks.targets import running

    with running(code) as child:
        meter, took = Meter(), []
        for _ in range(rounds):
            began = time.thread_time()
            with meter.asking(process(child.pid), 0.0):
                pass
            took.append(time.thread_time() - began)
    return min(took) / threads * 1e6


def _cost(node: Node, rounds: int, *, light: bool) -> Cost:
    rows = []
    for number in range(rounds + 1):  # the first one only warms up
        began, cpu, others, turns = time.monotonic(), time.process_time(), _dumpers_s(), _turns(node)
        node.answer(TakeEvidence(number, light=light))
        took = time.monotonic() - began, time.process_time() - cpu, _dumpers_s() - others
        time.sleep(0.5)  # who was woken up has run by now
        woken = statistics.fmean(now - then for now, then in zip(_turns(node), turns, strict=True))
        rows.append((*(seconds * 1e3 for seconds in took), woken))
    return Cost(*(statistics.median(column) for column in zip(*rows[1:], strict=True)))


def _dumpers_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _turns(node: Node) -> list[int]:
    """How often the main thread of each rank was put on a CPU."""
    return [read_runs(rank.pid, rank.pid)[1] for rank in node.census.ranks()]


@contextmanager
def _stuck(ranks: int, workers: int, threads: int) -> Iterator[Node]:
    """A job whose ranks all stand still, seen by an agent without a coordinator."""
    with tempfile.TemporaryDirectory() as folder:
        run, ready = Path(folder) / "run", Path(folder) / "ready"
        for path in (run, ready, run / "pages", run / "sock", run / "fault"):
            path.mkdir()
        paths = [str(BOOTSTRAP), *filter(None, [os.environ.get("PYTHONPATH")])]
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={ranks}",
        ]
        launcher = subprocess.Popen(
            [*torchrun, str(JOB), str(ready), str(workers), str(threads)],
            env={**os.environ, "DDETECT_RUN_DIR": str(run), "PYTHONPATH": os.pathsep.join(paths)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        node = Node(str(run), name="bench", job="bench")
        try:
            deadline = time.monotonic() + STARTS_WITHIN_S
            while len(list(ready.iterdir())) < ranks:
                if time.monotonic() > deadline or launcher.poll() is not None:
                    raise TimeoutError("the ranks did not come to stand still")
                time.sleep(0.2)
            time.sleep(1.0)
            node.tick()
            if len(node.census.ranks()) != ranks or len(node.census.helpers()) != ranks * workers:
                raise RuntimeError("the agent does not see every process of the job")
            yield node
        finally:
            node.close()
            launcher.send_signal(signal.SIGTERM)
            try:
                launcher.wait(30)
            except subprocess.TimeoutExpired:
                launcher.kill()
                launcher.wait()
