"""What the hooks cost a Keras fit job: on and off in alternating blocks of steps inside one process.

Only neighbours are compared. A machine that others use too has blocks that took twice as long: of the logarithms of the
ratios, a fifth at each end does not count (a trimmed mean, with Yuen's interval).
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import ddetect_probe

from tests.live.tf_workers import tf_python

JOB = Path(__file__).with_name("tf_job.py")
BOOTSTRAP = Path(ddetect_probe.__file__).parent / "bootstrap"
WANTED = 0.005  # half of the interval
ROUND_S, ROUNDS = 45, 5
TRIM = 0.2


def trimmed(values: list[float]) -> tuple[float, float]:
    """The trimmed mean, and half of its 95 % interval."""
    ordered = sorted(values)
    cut = int(len(ordered) * TRIM)
    kept = ordered[cut : len(ordered) - cut]
    drawn_in = [kept[0]] * cut + kept + [kept[-1]] * cut
    return statistics.fmean(kept), 1.96 * statistics.stdev(drawn_in) / (
        (1 - 2 * TRIM) * math.sqrt(len(ordered))
    )


def run_once(seconds: float) -> dict[str, list[float]]:
    """One job: its pairs."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("pages", "sock", "fault"):
            (Path(folder) / name).mkdir()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DDETECT", "PYTHON"))},
            "DDETECT_RUN_DIR": folder, "PYTHONPATH": str(BOOTSTRAP), "TF_CPP_MIN_LOG_LEVEL": "2",
        }  # fmt: skip
        done = subprocess.run(
            [tf_python(), str(JOB), str(seconds)],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=seconds + 120,
        )
    told = json.loads(done.stdout.splitlines()[-1])
    return {**told, "step_ms": [told["step_ms"]]}


def measure(round_s: float = ROUND_S, rounds: int = ROUNDS) -> dict[str, tuple[float, float, int]]:
    """Of wall and CPU time: the ratio hooked to plain, half of its interval, and how many pairs; and a step's time."""
    seen: dict[str, list[float]] = {"wall": [], "cpu": [], "step_ms": []}
    for _ in range(rounds):
        for name, values in run_once(round_s).items():
            seen[name] += values
        if all(trimmed(seen[kind])[1] <= WANTED for kind in ("wall", "cpu")):
            break
    found = {kind: (*trimmed(seen[kind]), len(seen[kind])) for kind in ("wall", "cpu")}
    return {**found, "step_ms": (statistics.median(seen["step_ms"]), 0.0, len(seen["step_ms"]))}
