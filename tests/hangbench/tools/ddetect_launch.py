"""ddetect as users are told to start it: `ddetect launch torchrun ...`.

What counts is on disk after the job was ended, by an end that somebody else chose; what was said while it hung is kept
beside it. A healthy job ends by itself.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddetect.model import Status
from ddetect.scenarios.catalogue import Params, Scenario, command
from ddetect.scenarios.starting import require
from tests.hangbench.clock import ProgressClock
from tests.hangbench.incidents import alarm_at, beside, is_alarm, last_of, other_attempts, outcome_of
from tests.hangbench.outcome import Outcome
from tests.hangbench.sightings import Sightings, answer_of
from tests.hangbench.tools.through import through
from tests.hangbench.tools.tool import AFTER, HEALTHY_CAP_S, KEPT, PATIENCE_S, WATCH_S, Tool
from tests.live.ends import TIMEOUT, TORCH_TIMEOUT_S, End
from tests.live.harness import Result, watch_job

SAID = 2000  # characters about a run that failed


def run(scenario: Scenario, params: Params, folder: Path, end: End | None) -> Outcome:
    """Under the launcher until the alarm, and then until the end is over; a healthy job until its own."""
    require(scenario)
    clocks: list[ProgressClock] = []
    seen = Sightings()
    how: dict[str, Any] = {"until": "end", "timeout_s": HEALTHY_CAP_S}
    if end is not None:
        how = {"until": "confirmed", "timeout_s": WATCH_S, "end": end}
    if end is TIMEOUT:
        how["env"] = {"HANGBENCH_TIMEOUT_S": str(TORCH_TIMEOUT_S)}
    try:
        result = watch_job(
            through("timeout", scenario, params) if end is TIMEOUT else command(scenario, params),
            params,
            patience=PATIENCE_S,
            incidents=scenario.incidents,
            keep=folder / KEPT,
            keep_after=folder / AFTER,
            on_start=lambda pid: clocks.append(ProgressClock(pid)),
            on_look=seen.look,
            **how,
        )
    finally:
        for clock in clocks:
            clock.stop()
    healthy = scenario.status is Status.HEALTHY
    return about_healthy(result) if healthy else about_hang(scenario, result, clocks[0], seen)


def about_healthy(result: Result) -> Outcome:
    """Silence is right, and so is that no folder is left."""
    alarms = [one for one in result.incidents if is_alarm(one)]
    told = {"suspicions": len(result.folders) - len(alarms), "left": "; ".join(result.left)}
    failed = result.problem[:SAID] or (f"exit code {result.exit_code}" if result.exit_code else "")
    return outcome_of(alarms[0], None, **told, failed=failed) if alarms else Outcome(**told, failed=failed)


def about_hang(scenario: Scenario, result: Result, clock: ProgressClock, seen: Sightings) -> Outcome:
    """What is on disk when all is over, of the incident that was waited for."""
    ended = {"ended_by": result.ended_by, "left": "; ".join(result.left)}
    if not result.verdict:
        told = [one for one in result.incidents if is_alarm(one)]
        failed = result.problem[:SAID] or "it said nothing before the job ended"
        return outcome_of(told[0], None, **ended, failed=failed) if told else Outcome(**ended, failed=failed)
    came, params = result.verdict, result.params
    final = last_of(came, result.incidents)
    alarms = [one for one in result.incidents if is_alarm(one)]
    # Alarms up to the one that was waited for: one for each attempt; what came later is judged by `beside`.
    until = [one for one in alarms if not is_alarm(came) or alarm_at(one) <= alarm_at(came)]
    failed = result.problem[:SAID] or (other_attempts(scenario, params, until) if is_alarm(came) else "")
    return outcome_of(
        final,
        clock.last_before(alarm_at(final)) if is_alarm(final) else None,
        named_at=seen.since(came),
        suspicions=len(result.folders) - len(alarms),
        alive=answer_of(came) if is_alarm(came) else None,
        beside=beside(scenario, params, final, result.incidents),
        failed=failed,
        **ended,
    )


TOOL = Tool(
    name="ddetect launch",
    version=lambda: version("ddetect"),
    settings=f"--patience {PATIENCE_S:.0f} (default 300); program unchanged, but for a timeout of "
    f"{TORCH_TIMEOUT_S:.0f} s (default 1800) where that is its end; right is what is on disk after the end",
    run_to_end=run,
    suspects=True,
    frameworks=("torch", "tensorflow"),
    hears_pause=True,
)
