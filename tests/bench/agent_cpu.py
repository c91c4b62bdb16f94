"""CPU of the agent and the coordinator while 8 ranks train: share of one core, from /proc, over a fixed time."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time

import psutil

from tests.bench.step_time import JOB


def measure(ranks: int = 8, seconds: float = 20.0) -> dict[str, float]:
    """Start a job of `ranks` ranks that step ten times a second, wait until all step, and count CPU seconds."""
    with tempfile.TemporaryDirectory() as out:
        ddetect = [sys.executable, "-m", "ddetect", "launch", "--out", out]
        torchrun = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(ranks),
        ]
        launcher = subprocess.Popen(
            [*ddetect, *torchrun, str(JOB), "-", "100000", "0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_stepping(ranks)
            helpers = {
                name: process
                for process in psutil.Process(launcher.pid).children()
                for name in ("agent", "coordinator")
                if process.cmdline()[1:4] == ["-m", "ddetect", name]
            }
            before = {name: _cpu_s(process) for name, process in helpers.items()}
            began = time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            return {name: (_cpu_s(process) - before[name]) / took for name, process in helpers.items()}
        finally:
            launcher.send_signal(signal.SIGTERM)
            launcher.wait()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait_until_stepping(ranks: int, timeout_s: float = 120.0) -> None:
    """Ask `ddetect status` until every rank has stepped."""
    import json

    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        asked = subprocess.run(
            [sys.executable, "-m", "ddetect", "status", "--json"], capture_output=True, text=True, check=False
        )
        if asked.stdout:
            lanes = json.loads(asked.stdout)["ranks"]
            if len(lanes) == ranks and all((lane["step"] or 0) > 20 for lane in lanes):
                return
        time.sleep(1.0)
    raise TimeoutError("the ranks did not start to step")
