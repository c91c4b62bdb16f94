"""Each scenario under real torchrun: status, cause, culprits and place are those that it carries as its truth.

One per cause, those that the catalogue marks `every_time`; with DDETECT_ALL_SCENARIOS=1 every one that there is.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS, TORCH, Params, Scenario
from tests.live.harness import Result, run_scenario

STARTUP_EXTRA_S = 60.0  # suspicion before the first step takes longer by design

EVERYTHING = os.environ.get("DDETECT_ALL_SCENARIOS", "") not in ("", "0")
HANGING = [
    scenario
    for scenario in TORCH.values()
    if scenario.status is not Status.HEALTHY and (scenario.every_time or EVERYTHING)
]


def drawn(scenario: Scenario, worlds: Sequence[int] = (4, 4, 4, 3)) -> Params:
    """Parameters that differ from scenario to scenario and never from run to run."""
    draw = random.Random(scenario.name)
    world_size = max(draw.choice(worlds), scenario.min_world)
    return Params(
        rank=draw.randrange(world_size),
        world_size=world_size,
        at=draw.randrange(20, 60),
        step_ms=draw.choice([20, 50, 90]),
    )


def run(scenario: Scenario, params: Params, within_s: float = 120.0) -> Result:
    return run_scenario(
        scenario.name,
        rank=params.rank,
        world_size=params.world_size,
        at=params.at,
        step_ms=params.step_ms,
        timeout_s=within_s * scenario.incidents + (STARTUP_EXTRA_S if scenario.before_first_step else 0.0),
    )


def assert_is_truth(result: Result, scenario: Scenario) -> None:
    """Compare a verdict with the scenario's truth, all of it at once so that a failure shows the whole picture."""
    verdict, params = result.verdict, result.params
    cause = scenario.cause.value if scenario.cause else None
    said = (verdict["status"], verdict["cause"], result.culprit_ranks, verdict["proof"])
    assert said == (scenario.status.value, cause, scenario.culprits(params), scenario.proof.value), (
        result.report
    )
    assert verdict["world_size"] == scenario.ranks(params)
    assert_is_the_place(verdict, params, scenario, result.report)


def assert_is_the_place(verdict: dict[str, Any], params: Params, scenario: Scenario, report: str) -> None:
    """The struck rank's function and line are the marked ones, its process is the one at fault."""
    who = (
        params.rank
        if params.rank in scenario.culprits(params)
        else min(scenario.culprits(params), default=-1)
    )
    struck = [culprit for culprit in verdict["culprits"] if culprit["rank"] == who]
    if scenario.function is not None:
        where = struck[0]["where"]
        assert where is not None, report
        place = (where["function"].rpartition(".")[2], Path(where["file"]).name)
        assert place == (scenario.function, scenario.path.name), report
        assert where["line"] in scenario.lines, report
    if scenario.role is not None:
        process = struck[0]["process"]
        assert process is not None, report
        index = scenario.index(params) if scenario.index else None
        assert (process["role"], process["index"]) == (scenario.role, index), report


@pytest.mark.parametrize("scenario", HANGING, ids=lambda scenario: scenario.name)
def test_stuck_job_gets_the_verdict_that_is_its_truth(scenario: Scenario) -> None:
    """The alarm names status, cause, ranks, process and line."""
    result = run(scenario, drawn(scenario))

    assert_is_truth(result, scenario)


@pytest.mark.parametrize("name", ["mismatch_op", "p2p_cycle", "user_sleep"])
def test_job_of_two_ranks_gets_the_verdict_that_is_its_truth(name: str) -> None:
    """The smallest job: where two ranks disagree both are named; where one is at fault, that one."""
    scenario = SCENARIOS[name]

    result = run(scenario, Params(rank=1, world_size=2, at=30, step_ms=40))

    assert_is_truth(result, scenario)


@pytest.mark.timeout(400)  # two jobs
def test_second_loader_worker_is_told_from_the_first() -> None:
    """An odd batch is the second worker's, an even one the first's."""
    scenario = SCENARIOS["data_worker_stuck"]

    results = [run(scenario, Params(rank=rank, world_size=2, at=30 + rank)) for rank in (0, 1)]

    for result in results:
        assert_is_truth(result, scenario)


def test_suspicion_comes_before_the_alarm_and_names_the_same_rank() -> None:
    """A time cause is on disk as a suspicion long before patience runs out."""
    scenario = SCENARIOS["user_sleep"]

    result = run_scenario(
        scenario.name, rank=0, world_size=3, patience=600.0, until="suspected", cause="user_code"
    )

    assert result.verdict["stage"] == "suspected"
    assert (result.verdict["cause"], result.culprit_ranks) == ("user_code", (0,)), result.report
    assert result.verdict.get("confirmed_at_unix_ns") is None


def test_ending_a_stuck_job_does_not_change_what_was_said_about_it() -> None:
    """Whoever ends a stuck job finds the reason for the hang in the incident, not the signal that ended it."""
    scenario = SCENARIOS["p2p_cycle"]

    result = run_scenario(scenario.name, rank=0, world_size=3, at=30)

    final = result.incidents[-1]
    assert (final["status"], final["cause"]) == ("hang", "p2p_deadlock"), final["summary"]
    assert final["stage"] == "closed"


def test_incident_closes_when_a_stopped_rank_goes_on() -> None:
    """The alarm names the stopped rank; when it goes on the incident closes and the job ends well."""
    result = run_scenario("stopped_and_resumed", rank=1, world_size=3, step_ms=20, until="end")

    alarms = [one["cause"] for one in result.incidents if one.get("confirmed_at_unix_ns")]
    stages = {one["stage"] for one in result.incidents}  # a busy machine may add a suspicion of a slow step
    assert (result.exit_code, alarms, stages) == (0, ["process_stopped"], {"closed"}), result.stderr[-3000:]
