"""What `ddetect status --json` shows of a job every five seconds, and how busy the machine is meanwhile.

Enters: the folder of the job's run directories. Leaves: a file with a line per sample, and the samples. The status is
asked for in this process, as the command does: ten commands every five seconds would be a load of their own.
Never here: an opinion about what is shown.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddetect.cli.rundirs import read_jobs
from ddetect.cli.status import format_view_json
from ddetect.client import read_status
from ddetect.errors import DdetectError

EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment. `status` is None when nobody answered, and `problem` says why."""

    at: float  # CLOCK_MONOTONIC
    load: float  # the average of the last minute
    status: dict[str, Any] | None = None
    problem: str = ""


class Sampler:
    """Asks from a thread of its own until it is stopped."""

    def __init__(self, run_base: Path, path: Path) -> None:
        self.samples: list[Sample] = []
        self._environ = {"DDETECT_RUN_BASE": str(run_base)}
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with open(self._path, "w", encoding="utf-8") as file:
            while not self._over.wait(EVERY_S):
                sample = self._sample()
                self.samples.append(sample)
                told = {
                    "at": sample.at,
                    "load": sample.load,
                    "problem": sample.problem,
                    "status": sample.status,
                }
                file.write(json.dumps(told) + "\n")
                file.flush()

    def _sample(self) -> Sample:
        at, load = time.monotonic(), os.getloadavg()[0]
        try:
            jobs = [job for job in read_jobs(self._environ) if job.coordinator]
            if not jobs:
                return Sample(at, load, None, "no coordinator listens")
            return Sample(at, load, json.loads(format_view_json(read_status(jobs[0].coordinator))))
        except (DdetectError, OSError, ValueError) as error:
            return Sample(at, load, None, str(error))


def read_samples(path: Path) -> list[Sample]:
    """The samples of a run, from its folder."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Sample(**json.loads(line)) for line in lines]
