"""ddetect as users are told to start it: `ddetect launch torchrun ...`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.clock import ProgressClock
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.base import HEALTHY_PATIENCE_S, PATIENCE_S, TIMEOUT_S, Tool
from tests.live.harness import ScenarioFailed, run_scenario


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Under the launcher until the alarm; a healthy job until its end."""
    healthy = scenario.status is Status.HEALTHY
    clocks: list[ProgressClock] = []
    try:
        seen = run_scenario(
            scenario.name,
            rank=params.rank,
            world_size=params.world_size,
            at=params.at,
            step_ms=params.step_ms,
            patience=HEALTHY_PATIENCE_S if healthy else PATIENCE_S,
            until="end" if healthy else "confirmed",
            timeout_s=2 * TIMEOUT_S,
            extra=params.extra,
            keep=folder / "incident",
            on_start=lambda pid: clocks.append(ProgressClock(pid)),
        )
    except ScenarioFailed as failure:
        return Outcome(says=str(failure)[:2000])
    finally:
        for clock in clocks:
            clock.stop()
    alarms = [one for one in seen.incidents if one.get("confirmed_at_unix_ns")]
    if healthy:
        if not alarms:
            return Outcome(says=f"exit code {seen.exit_code}" if seen.exit_code else "")
        return Outcome(alarm_at=alarms[-1]["confirmed_at_unix_ns"] / 1e9, says=alarms[-1]["summary"])
    verdict = seen.verdict
    alarm_at = verdict["confirmed_at_unix_ns"] / 1e9
    return Outcome(
        alarm_at=alarm_at,
        named_at=verdict["judged_at_unix_ns"] / 1e9,
        last_progress=clocks[0].last_before(alarm_at),
        culprits=seen.culprit_ranks,
        status=verdict["status"],
        cause=verdict["cause"],
        evidence="report, verdict.json, snapshot to replay",
        says=verdict["summary"],
    )


TOOL = Tool(
    name="ddetect launch",
    version=lambda: version("ddetect"),
    settings=f"--patience {PATIENCE_S:.0f} ({HEALTHY_PATIENCE_S:.0f} for healthy jobs, default 60); program unchanged",
    run=run,
)
