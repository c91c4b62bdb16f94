"""TensorFlow's scenarios under `ddetect launch`: the verdict is the truth of each, healthy jobs stay in peace.

Those that the catalogue marks `every_time`; with DDETECT_ALL_SCENARIOS=1 every one that there is.
"""

from __future__ import annotations

import pytest

from ddetect.model import Status
from ddetect.scenarios.catalogue import TENSORFLOW, Scenario
from tests.hangbench.incidents import lanes_of, left_open_by
from tests.live.harness import Result, run_scenario
from tests.live.test_healthy import assert_is_well
from tests.live.test_scenarios import EVERYTHING, assert_is_the_place, drawn, run

pytestmark = [pytest.mark.timeout(300)]

CHOSEN = [scenario for scenario in TENSORFLOW.values() if scenario.every_time or EVERYTHING]
HANGING = [scenario for scenario in CHOSEN if scenario.status is not Status.HEALTHY]
WELL = [scenario for scenario in CHOSEN if scenario.status is Status.HEALTHY]


WORLDS, WITHIN_S = (3, 3, 2), 180.0


def assert_is_truth(result: Result, scenario: Scenario) -> None:
    """Status, cause, ranks, replica and line; of `undecided`, that the struck rank is among those left open."""
    verdict, params = result.verdict, result.params
    cause = scenario.cause.value if scenario.cause else None
    assert verdict["status"] in scenario.statuses, result.report
    assert (verdict["cause"], result.culprit_ranks) == (cause, scenario.culprits(params)), result.report
    assert verdict["world_size"] == scenario.ranks(params), result.report
    if scenario.lane is not None:
        assert lanes_of(verdict) == (scenario.lane(params),), result.report
    if scenario.left_open is not None:
        assert set(scenario.left_open(params)) <= set(left_open_by(verdict)), result.report
    assert_is_the_place(verdict, params, scenario, result.report)


@pytest.mark.parametrize("scenario", HANGING, ids=lambda scenario: scenario.name)
def test_stuck_tensorflow_job_gets_the_verdict_that_is_its_truth(scenario: Scenario) -> None:
    """The alarm names what was done to whom; what TensorFlow makes of it later is no cause."""
    assert_is_truth(run(scenario, drawn(scenario, WORLDS), WITHIN_S), scenario)


@pytest.mark.parametrize("scenario", WELL, ids=lambda scenario: scenario.name)
def test_healthy_tensorflow_job_raises_no_alarm(scenario: Scenario) -> None:
    """It ends as it would alone. A patience of a quarter of the default."""
    assert_is_well(
        run_scenario(scenario.name, rank=1, world_size=3, patience=15.0, until="end", timeout_s=240.0)
    )
