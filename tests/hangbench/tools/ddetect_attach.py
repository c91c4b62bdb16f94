"""ddetect without the probe: the job is started alone; `ddetect attach --once` is asked when it stands still.

A job that ends by itself (and a healthy one) is watched from its start, as there is nobody to attach to afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario, command
from tests.hangbench.incidents import (
    alarm_at,
    culprits_of,
    is_alarm,
    lanes_of,
    left_open_by,
    lines_of,
    outcome_of,
)
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.sightings import Sightings
from tests.hangbench.tools.asking import STILL_S, ask_when_still, healthy_end
from tests.hangbench.tools.tool import HEALTHY_CAP_S, KEPT, PATIENCE_S, Tool

START_S = 60.0  # for all ranks to be there, before a watcher comes
ANSWER_S = 90.0
LOOK_EVERY_S = 0.1
NO_ALARM = (Status.HEALTHY.value, Status.UNDECIDED.value)


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Once when it hangs; from start to end when it ends."""
    with running(command(scenario, params), folder) as job:
        if scenario.status in (Status.STOPPED, Status.HEALTHY):
            return _watch(job, scenario, params, folder / KEPT)
        return ask_when_still(job, scenario, folder, _ask)


def _ask(job: Job, kept: Path) -> Outcome:
    asked_at = time.time()
    done = _attach(job, kept, ["--once", "--json"], ANSWER_S)
    if not done.stdout:
        return Outcome(asked=True, failed=f"exit code {done.returncode}: {done.stderr[-500:]}")
    return answer(json.loads(done.stdout), asked_at, time.time())


def answer(verdict: dict[str, Any], asked_at: float, now: float) -> Outcome:
    """Its first and only one; a job that moves and one that nobody understands are no alarm."""
    answered = None if verdict["status"] in NO_ALARM else now
    return Outcome(
        alarm_at=answered,
        named_at=answered,
        last_progress=asked_at,
        culprits=culprits_of(verdict),
        status=verdict["status"],
        cause=verdict["cause"],
        lanes=lanes_of(verdict),
        lines=lines_of(verdict),
        left_open=left_open_by(verdict),
        asked=True,
        says=f"({verdict['confidence']:.2f}) {verdict['summary']}",
    )


def _watch(job: Job, scenario: Scenario, params: Params, kept: Path) -> Outcome:
    job.wait(lambda: job.clock.ranks_seen >= scenario.ranks(params), START_S)
    problem, words, seen = "", "", Sightings()
    try:
        done = _attach(job, kept, ["--patience", str(PATIENCE_S)], HEALTHY_CAP_S, seen.look)
        problem, words = f"exit code {done.returncode}" if done.returncode else "", done.stderr
    except subprocess.TimeoutExpired:
        problem = f"it watched for {HEALTHY_CAP_S:.0f} s and did not end"
    told = [json.loads(path.read_text()) for path in sorted(kept.glob("incident-*/verdict.json"))]
    alarms = [one for one in told if is_alarm(one)]
    suspicions = len(list(kept.glob("incident-*"))) - len(alarms)
    if alarms:
        moved = job.clock.last_before(alarm_at(alarms[0]))
        return outcome_of(alarms[0], moved, named_at=seen.since(alarms[0]), suspicions=suspicions)
    failed = healthy_end(job) if scenario.status is Status.HEALTHY else ""
    if problem:
        failed = failed or f"{problem}: {words[-500:]}"
    return Outcome(suspicions=suspicions, says=words[-300:], failed=failed)


def _attach(
    job: Job,
    kept: Path,
    options: list[str],
    timeout_s: float,
    on_look: Callable[[Path], None] = lambda _: None,
) -> subprocess.CompletedProcess[str]:
    attach = [sys.executable, "-m", "ddetect", "attach", "--pid", str(job.process.pid), "--out", str(kept)]
    command, deadline = [*attach, *options], time.monotonic() + timeout_s
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        try:
            while True:
                try:
                    told, words = asked.communicate(timeout=LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    on_look(kept)
                    if time.monotonic() > deadline:
                        raise
        finally:
            asked.kill()  # nothing, if it has ended
    on_look(kept)
    return subprocess.CompletedProcess(command, asked.returncode, told, words)


TOOL = Tool(
    name="ddetect attach",
    version=lambda: version("ddetect"),
    settings=f"--once when the job has stood still for {STILL_S:.0f} s, its first answer counts; jobs that end by "
    f"themselves are watched with --patience {PATIENCE_S:.0f} (default 300), and struck later so that it is there in "
    "time; no probe, program unchanged",
    run=run,
    suspects=True,
    frameworks=("torch", "tensorflow"),
    attaches=True,
)
