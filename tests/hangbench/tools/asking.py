"""For tools that do not watch: wait until the job stands still, as a person would, then ask.

A healthy job is not asked about: it runs to its end. Nor one that has ended: there is nobody to ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ddetect.model import Status
from ddetect.scenarios.catalogue import Scenario
from tests.hangbench.job import Job
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.base import TIMEOUT_S

STILL_S = 3.0  # the same as for `ddetect attach`
HEALTHY_CAP_S = 120.0


def ask_when_still(
    job: Job, scenario: Scenario, folder: Path, ask: Callable[[Job, Path], Outcome]
) -> Outcome:
    """The tool's answer; its time runs from the question, as that of `ddetect attach` does."""
    if scenario.status is Status.HEALTHY:
        return at_its_end(job)
    stood_still = job.wait_until_still(STILL_S, TIMEOUT_S)
    if job.ended:
        return Outcome(asked=True, says=f"the job had ended by itself (exit code {job.process.returncode})")
    if not stood_still:
        return Outcome(asked=True, says="the bench never saw the job stand still, and did not ask")
    return ask(job, folder)


def at_its_end(job: Job) -> Outcome:
    """Of a healthy job under a tool without an alarm: nothing, but for an exit code that should not be."""
    job.wait(lambda: job.ended, HEALTHY_CAP_S)
    code = job.process.returncode
    problem = "it had not ended" if code is None else f"exit code {code}"
    return Outcome(
        says="" if code == 0 else f"{problem} after {time.time() - job.began:.0f} s: {job.words[-500:]}"
    )
