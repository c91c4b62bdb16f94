"""How many verdicts are right without the probe: each scenario started alone, then attached to.

Enters: scenario names (none: all), `--seed`, `--keep DIR` for the snapshots. Leaves: a table on stdout and, with
--keep, one .ddsnap each. A scenario that ends by itself is attached to before it is struck, in watch mode.
Never here: an opinion about the verdict; a process that outlives the call.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddetect.attach.find import JobScan, Wanted
from ddetect.attach.once import look_and_judge
from ddetect.attach.watch import settings_for
from ddetect.errors import DdetectError
from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS, Params
from ddetect.wire.file import write_snapshot
from tests.live.alone import running_alone

STARTS_S, GIVE_UP_S, AGAIN_S = 12.0, 45.0, 3.0
Answer = tuple[str, str | None, tuple[int, ...]]


def look_once(job: subprocess.Popen[bytes], keep: Path | None) -> tuple[Answer, float, str]:
    """Attach with --once when the job has had time to get stuck; again while it still moves."""
    began = time.monotonic()
    time.sleep(STARTS_S)
    while True:
        try:
            scan = JobScan(Wanted((job.pid,)))
            scan.choose()
            incident, snapshot = look_and_judge(scan, settings_for(60.0))
        except DdetectError as error:
            return ("none", None, ()), 0.0, str(error)
        verdict = incident.verdict
        if verdict.status is not Status.HEALTHY or time.monotonic() - began > GIVE_UP_S:
            break
        time.sleep(AGAIN_S)
    if keep is not None:
        write_snapshot(keep, snapshot)
    cause = verdict.cause.value if verdict.cause else None
    return (verdict.status.value, cause, verdict.culprit_ranks), verdict.confidence, verdict.summary


def watch(job: subprocess.Popen[bytes], patience_s: float) -> tuple[Answer, float, str]:
    """Attach at once and watch until the job ends; what was said last counts."""
    time.sleep(STARTS_S / 2)
    with tempfile.TemporaryDirectory() as folder:
        attach = [sys.executable, "-m", "ddetect", "attach", "--pid", str(job.pid), "--out", folder]
        done = subprocess.run(
            [*attach, "--patience", str(patience_s)], capture_output=True, text=True, timeout=120, check=False
        )
        told = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("incident-*/verdict.json"))]
    alarms = [one for one in told if one.get("confirmed_at_unix_ns")]
    if not alarms:
        return ("healthy" if done.returncode == 0 else "none", None, ()), 0.0, done.stderr[-300:]
    last = alarms[-1]
    ranks = tuple(sorted({culprit["rank"] for culprit in last["culprits"]}))
    return (last["status"], last["cause"], ranks), last["confidence"], last["summary"]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--seed", default="1")
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    right = 0
    for name in args.names:
        scenario = SCENARIOS[name]
        draw = random.Random(f"{args.seed}/{name}")
        ends = scenario.status in (Status.STOPPED, Status.HEALTHY)
        world = draw.choice([3, 4])
        params = Params(draw.randrange(world), world, 250 if ends else draw.randrange(6, 12), 30)
        with running_alone(scenario, params) as job:
            if ends:
                answer, sure, says = watch(job, 60.0)
            else:
                answer, sure, says = look_once(job, args.keep / f"{name}.ddsnap" if args.keep else None)
        cause = scenario.cause.value if scenario.cause else None
        truth: Answer = (scenario.status.value, cause, tuple(scenario.culprits(params)))
        right += answer == truth
        said = "right" if answer == truth else f"{answer}, is {truth}"
        print(f"| {name} | {said} | {sure:.2f} | {says} |", flush=True)
    print(f"{right} of {len(args.names)} right ({right / len(args.names):.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
