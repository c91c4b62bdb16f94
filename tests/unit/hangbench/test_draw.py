"""Seeds: the same one always draws the same run, and another one another."""

from __future__ import annotations

from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS
from tests.hangbench.draw import drawn


def test_a_seed_draws_the_same_run_again_and_another_seed_another():
    """Somebody else can repeat a run of the table."""
    once, again = ([drawn(s, "1") for s in SCENARIOS.values()] for _ in range(2))

    assert once == again
    assert once != [drawn(s, "2") for s in SCENARIOS.values()]


def test_every_draw_fits_its_scenario():
    """The struck rank exists, there are enough ranks, and nobody is struck in a healthy job."""
    for seed in map(str, range(20)):
        for scenario in SCENARIOS.values():
            params = drawn(scenario, seed)
            assert params.world_size >= scenario.min_world
            healthy = scenario.status is Status.HEALTHY
            assert params.rank in ([-1] if healthy else range(params.world_size))
