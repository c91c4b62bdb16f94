"""`ddetect attach` to jobs that train in another thread than the main one: right rank, cause and line, silent if well.

Two run every time, with DDETECT_ALL_SCENARIOS=1 all. What `ddetect launch` says of them is in test_scenarios and
test_healthy, as of any other scenario.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS, Params, Scenario
from tests.live.alone import running_alone
from tests.live.test_attach import TIMEOUT_S, attached, confirmed, until_alarm, wait_for_ranks
from tests.live.test_scenarios import EVERYTHING, assert_is_the_place

pytestmark = [pytest.mark.live, pytest.mark.timeout(360)]

PARAMS = Params(rank=1, world_size=3, at=21, step_ms=30)

OFF_MAIN = [scenario for scenario in SCENARIOS.values() if scenario.off_main]
HANGING = [
    scenario
    for scenario in OFF_MAIN
    if scenario.status is not Status.HEALTHY and (EVERYTHING or scenario.name == "thread_loop_collective")
]
WELL = [
    scenario
    for scenario in OFF_MAIN
    if scenario.status is Status.HEALTHY and (EVERYTHING or scenario.name == "healthy_joined")
]


@pytest.mark.parametrize("scenario", HANGING, ids=lambda scenario: scenario.name)
def test_job_that_trains_in_a_thread_gets_the_verdict_that_is_its_truth(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Without a probe nobody says which thread trains; the alarm names rank, cause, process and line all the same."""
    with running_alone(scenario, PARAMS) as job:
        wait_for_ranks(job.pid, PARAMS.world_size)
        with attached(job.pid, tmp_path, "--patience", "6") as watcher:
            report, news = until_alarm(watcher, tmp_path)

    (verdict,) = confirmed(tmp_path) or pytest.fail(report + news)
    ranks = tuple(sorted({culprit["rank"] for culprit in verdict["culprits"]}))
    cause = scenario.cause.value if scenario.cause else None
    said = (verdict["status"], verdict["cause"], ranks)
    assert said == (scenario.status.value, cause, scenario.culprits(PARAMS)), report + news
    assert_is_the_place(verdict, PARAMS, scenario, report + news)


@pytest.mark.parametrize("scenario", WELL, ids=lambda scenario: scenario.name)
def test_healthy_job_that_trains_in_a_thread_is_watched_to_its_end_without_an_alarm(
    scenario: Scenario, tmp_path: Path
) -> None:
    """A main thread that waits all the time is no hang."""
    with running_alone(scenario, PARAMS) as job:
        wait_for_ranks(job.pid, PARAMS.world_size)
        with attached(job.pid, tmp_path, "--patience", "15") as watcher:
            report, news = watcher.communicate(timeout=TIMEOUT_S)

    assert (watcher.returncode, report) == (0, ""), report + news
    assert not confirmed(tmp_path)
