"""ddetect as users are told to start it: `ddetect launch torchrun ...`.

How a stuck job of TensorFlow's is ended alternates from seed to seed, by SIGTERM to the launcher and by ddetect itself
(`--on-hang stop`): what is on disk afterwards counts too, beside the answer."""

from __future__ import annotations

import zlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.clock import ProgressClock
from tests.hangbench.incidents import alarm_at, at_end, is_alarm, other_attempts, outcome_of
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.tool import HEALTHY_CAP_S, KEPT, PATIENCE_S, WATCH_S, Tool
from tests.live.harness import ScenarioFailed, run_scenario

SIGTERM, STOP = "SIGTERM", "--on-hang stop"
STOPPED_WITHIN_S = 40.0  # for ddetect to end a job of which it has told


def ending(scenario: Scenario, seed: int) -> str:
    """By whom a stuck job is ended, in turn from seed to seed; torch's always as its users do it today."""
    if scenario.framework != "tensorflow" or scenario.status is Status.HEALTHY:
        return SIGTERM
    return (SIGTERM, STOP)[(zlib.crc32(scenario.name.encode()) + seed) % 2]


def _seed(folder: Path) -> int:
    """Runs lie in a folder of their seed: "seed-3"."""
    digits = folder.parent.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Under the launcher until the alarm; a healthy job until its end."""
    healthy = scenario.status is Status.HEALTHY
    clocks: list[ProgressClock] = []
    by = ending(scenario, _seed(folder))
    try:
        seen = run_scenario(
            scenario.name,
            rank=params.rank,
            world_size=params.world_size,
            at=params.at,
            step_ms=params.step_ms,
            patience=PATIENCE_S,
            until="end" if healthy else "confirmed",
            timeout_s=HEALTHY_CAP_S if healthy else WATCH_S,
            extra=params.extra,
            launch_options=("--on-hang", "stop") if by == STOP else (),
            let_end_s=STOPPED_WITHIN_S if by == STOP else 0.0,
            keep=folder / KEPT,
            on_start=lambda pid: clocks.append(ProgressClock(pid)),
        )
    except ScenarioFailed as failure:
        told = [one for one in failure.incidents if is_alarm(one)]
        outcome = outcome_of(told[0], None, 0) if told else Outcome()
        return replace(outcome, failed=str(failure)[:2000])
    finally:
        for clock in clocks:
            clock.stop()
    alarms = [one for one in seen.incidents if is_alarm(one)]
    suspicions = len(seen.incidents) - len(alarms)
    if not healthy:
        outcome = outcome_of(seen.verdict, clocks[0].last_before(alarm_at(seen.verdict)), suspicions)
        # What comes after it comes because the bench ends the job.
        until = [one for one in alarms if alarm_at(one) <= alarm_at(seen.verdict)]
        return replace(
            outcome,
            failed=other_attempts(scenario, params, until),
            at_end=at_end(seen.verdict, seen.incidents),
            ended_by=by,
        )
    outcome = outcome_of(alarms[0], None, suspicions) if alarms else Outcome(suspicions=suspicions)
    return replace(outcome, failed=f"exit code {seen.exit_code}" if seen.exit_code else "")


TOOL = Tool(
    name="ddetect launch",
    version=lambda: version("ddetect"),
    settings=f"--patience {PATIENCE_S:.0f} (default 60); program unchanged",
    run=run,
    suspects=True,
    frameworks=("torch", "tensorflow"),
    hears_pause=True,
)
