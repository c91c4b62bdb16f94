"""A healthy job that often looks stuck raises no alarm, and is not changed by being watched."""

from __future__ import annotations

import pytest

from tests.live.harness import run_scenario


@pytest.mark.timeout(300)
def test_slow_evaluations_checkpoint_and_first_step_raise_no_alarm() -> None:
    """6 s of evaluation every 25 steps of 50 ms, a slow checkpoint, a first step 20 times slower: no alarm."""
    result = run_scenario("healthy", rank=-1, step_ms=50, patience=60.0, until="end", timeout_s=200.0)

    alarms = [incident for incident in result.incidents if incident.get("confirmed_at_unix_ns")]
    assert (result.exit_code, alarms) == (0, []), result.stderr[-3000:]


@pytest.mark.timeout(300)
def test_evaluations_longer_than_patience_raise_no_alarm_once_learned() -> None:
    """Patience never falls below what the job has shown to be normal for it."""
    result = run_scenario(
        "healthy",
        rank=-1,
        world_size=3,
        patience=8.0,
        until="end",
        timeout_s=200.0,
        extra=("--steps", "90", "--evaluate-s", "7", "--checkpoint-at", "-1"),
    )

    alarms = [incident for incident in result.incidents if incident.get("confirmed_at_unix_ns")]
    assert (result.exit_code, alarms) == (0, []), result.stderr[-3000:]
