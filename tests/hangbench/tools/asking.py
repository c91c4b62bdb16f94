"""For tools that do not watch: wait until the job stands still, as a person would, then ask. Once; nobody asks again.

A healthy job is not asked about: it runs to its end. Nor one that has ended: there is nobody to ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ddetect.model import Status
from ddetect.scenarios.catalogue import Scenario
from tests.hangbench.job import Job
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.tool import HEALTHY_CAP_S, KEPT, STAND_STILL_S

STILL_S = 3.0


def ask_when_still(
    job: Job, scenario: Scenario, folder: Path, ask: Callable[[Job, Path], Outcome]
) -> Outcome:
    """The tool's answer; its time runs from the question. `ask` keeps what it saw in the folder that it is given."""
    if scenario.status is Status.HEALTHY:
        return Outcome(asked=True, failed=healthy_end(job))
    stood_still = job.wait_until_still(STILL_S, STAND_STILL_S, attempt=scenario.incidents)
    if job.ended:
        return Outcome(asked=True, cannot=f"the job had ended by itself (exit code {job.process.returncode})")
    if not stood_still:
        return Outcome(asked=True, failed="the bench never saw the job stand still, and did not ask")
    kept = folder / KEPT
    kept.mkdir()
    outcome = ask(job, kept)
    strays = "" if job.ended else job.strays()
    return replace(outcome, failed=outcome.failed or strays)


def healthy_end(job: Job) -> str:
    """Wait for a healthy job to end; what is wrong with how it did, if anything is."""
    job.wait(lambda: job.ended, HEALTHY_CAP_S)
    code = job.process.poll()
    if code == 0:
        return job.strays()
    problem = "it had not ended" if code is None else f"exit code {code}"
    return f"{problem} after {time.time() - job.began:.0f} s: {job.words[-500:]}"
