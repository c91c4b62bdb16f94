"""ddetect without the probe: the job is started alone; `ddetect attach` comes when it stands still.

A job that ends by itself (and a healthy one) is watched from its start, as there is nobody to attach to afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from ddetect.attach.find import JobScan, Wanted
from ddetect.attach.once import look_and_judge
from ddetect.attach.watch import settings_for
from ddetect.errors import DdetectError
from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario, command
from ddetect.wire.file import write_snapshot
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.base import HEALTHY_PATIENCE_S, TIMEOUT_S, Tool

STILL_S = 3.0  # a person types `ddetect attach` when the log has stood still; here the bench does
GIVE_UP_S = 45.0
AGAIN_S = 2.0


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Once when it hangs; from start to end when it ends."""
    ends = scenario.status in (Status.STOPPED, Status.HEALTHY)
    with running(command(scenario, params), folder) as job:
        return _watch(job, params, folder) if ends else _once(job, folder)


def _once(job: Job, folder: Path) -> Outcome:
    job.wait_until_still(STILL_S)
    began = time.monotonic()
    while True:
        asked_at = time.time()
        try:
            scan = JobScan(Wanted((job.process.pid,)))
            scan.choose()
            incident, snapshot = look_and_judge(scan, settings_for(60.0))
        except DdetectError as error:
            return Outcome(says=str(error))
        verdict = incident.verdict
        if verdict.status is not Status.HEALTHY or time.monotonic() - began > GIVE_UP_S:
            break
        time.sleep(AGAIN_S)
    write_snapshot(folder / "snapshot.ddsnap", snapshot)
    if verdict.status is Status.HEALTHY:
        return Outcome(says=verdict.summary)
    return Outcome(
        alarm_at=time.time(),
        named_at=time.time(),
        last_progress=asked_at,  # it was asked: its time runs from the question
        culprits=verdict.culprit_ranks,
        status=verdict.status.value,
        cause=verdict.cause.value if verdict.cause else None,
        asked=True,
        evidence="report",
        says=f"({verdict.confidence:.2f}) {verdict.summary}",
    )


def _watch(job: Job, params: Params, folder: Path) -> Outcome:
    job.wait(lambda: job.clock.ranks_seen >= params.world_size, 60.0)
    out = folder / "out"
    attach = [sys.executable, "-m", "ddetect", "attach", "--pid", str(job.process.pid), "--out", str(out)]
    done = subprocess.run(
        [*attach, "--patience", str(HEALTHY_PATIENCE_S)],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_S,
        check=False,
    )
    told = [json.loads(path.read_text()) for path in sorted(out.glob("incident-*/verdict.json"))]
    alarms = [one for one in told if one.get("confirmed_at_unix_ns")]
    if not alarms:
        return Outcome(says=done.stderr[-300:])
    last = alarms[-1]
    return Outcome(
        alarm_at=last["confirmed_at_unix_ns"] / 1e9,
        named_at=last["judged_at_unix_ns"] / 1e9,
        last_progress=job.clock.last_before(last["confirmed_at_unix_ns"] / 1e9),
        culprits=tuple(sorted({culprit["rank"] for culprit in last["culprits"]})),
        status=last["status"],
        cause=last["cause"],
        evidence="report, verdict.json, snapshot to replay",
        says=f"({last['confidence']:.2f}) {last['summary']}",
    )


TOOL = Tool(
    name="ddetect attach",
    version=lambda: version("ddetect"),
    settings=f"--once when the job has stood still for {STILL_S:.0f} s; jobs that end are watched with --patience "
    f"{HEALTHY_PATIENCE_S:.0f}; no probe, program unchanged",
    run=run,
    attaches=True,
)
