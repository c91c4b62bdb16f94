"""Step time alone and under `ddetect launch`, in alternating runs: the ratio and its interval.

This machine is noisy, so only the ratio of neighbours counts; the interval is over the pairs (Student's t on logs).
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = Path(__file__).with_name("training_job.py")
_T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}


def median_step_s(*, watched: bool, ranks: int, steps: int, folder: Path) -> float:
    """Run the job once; its own median step time."""
    out = folder / "step"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    watch = [sys.executable, "-m", "ddetect", "launch", "--out", str(folder / "out")] if watched else []
    subprocess.run(
        [*watch, *torchrun, str(JOB), str(out), str(steps), "0"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return float(out.read_text())


def measure(pairs: int = 8, ranks: int = 2, steps: int = 1500) -> dict[str, float]:
    """Alternate, starting with the other one each time; the ratio watched/alone with its 95 % interval."""
    alone, watched = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            for under in (False, True) if pair % 2 == 0 else (True, False):
                took = median_step_s(watched=under, ranks=ranks, steps=steps, folder=Path(folder))
                (watched if under else alone).append(took)
    logs = [math.log(w / a) for w, a in zip(watched, alone, strict=True)]
    mean = statistics.fmean(logs)
    spread = _T95[pairs] * statistics.stdev(logs) / math.sqrt(pairs)
    return {
        "alone_ms": statistics.median(alone) * 1e3,
        "watched_ms": statistics.median(watched) * 1e3,
        "ratio": math.exp(mean),
        "low": math.exp(mean - spread),
        "high": math.exp(mean + spread),
        "pairs": pairs,
    }
