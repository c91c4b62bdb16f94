"""A healthy job that often looks stuck raises no alarm, and is not changed by being watched.

`healthy` has a bit of everything and runs every time; with DDETECT_ALL_SCENARIOS=1 the others run too.
"""

from __future__ import annotations

import pytest

from ddetect.model import Status
from ddetect.scenarios.catalogue import TORCH
from tests.live.harness import Result, run_scenario
from tests.live.test_scenarios import EVERYTHING

WELL = [name for name, scenario in TORCH.items() if scenario.status is Status.HEALTHY]
OTHERS = [name for name in WELL if name != "healthy"] if EVERYTHING else ["healthy_plain_loop"]


def assert_is_well(result: Result) -> None:
    """It ended as it would alone, and nobody was alarmed."""
    alarms = [incident for incident in result.incidents if incident.get("confirmed_at_unix_ns")]
    assert (result.exit_code, alarms) == (0, []), result.stderr[-3000:]


@pytest.mark.timeout(300)
def test_slow_evaluations_checkpoint_and_first_step_raise_no_alarm() -> None:
    """6 s of evaluation every 25 steps of 50 ms, a slow checkpoint, a first step 20 times slower: no alarm."""
    assert_is_well(run_scenario("healthy", rank=0, step_ms=50, patience=60.0, until="end", timeout_s=200.0))


@pytest.mark.timeout(300)
def test_evaluations_longer_than_patience_raise_no_alarm_once_learned() -> None:
    """5 s, 7.5 s and 10 s asleep with a patience of 5 s, which never falls below thrice what was normal for the job."""
    result = run_scenario(
        "healthy_remote_evaluation",
        rank=1,
        world_size=3,
        patience=5.0,
        until="end",
        timeout_s=200.0,
        extra=("--evaluate-s", "5"),
    )

    assert_is_well(result)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OTHERS)
def test_healthy_job_raises_no_alarm(name: str) -> None:
    """Patience is a quarter of the default, and shorter than the longest that some of these jobs stand still."""
    assert_is_well(run_scenario(name, rank=1, patience=15.0, until="end", timeout_s=200.0))
