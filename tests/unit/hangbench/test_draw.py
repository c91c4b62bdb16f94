"""Seeds: the same one always draws the same run, and another one another."""

from __future__ import annotations

from ddetect.scenarios.catalogue import SCENARIOS
from tests.hangbench.draw import drawn


def test_a_seed_draws_the_same_run_again_and_another_seed_another():
    """Somebody else can repeat a run of the table."""
    once, again = ([drawn(s, "1") for s in SCENARIOS.values()] for _ in range(2))

    assert once == again
    assert once != [drawn(s, "2") for s in SCENARIOS.values()]


def test_every_draw_fits_its_scenario():
    """The struck rank exists, and there are enough ranks."""
    for seed in map(str, range(20)):
        for scenario in SCENARIOS.values():
            params = drawn(scenario, seed, min_world=3)
            assert params.world_size >= max(scenario.min_world, 3)
            assert params.rank in range(params.world_size)


def test_three_seeds_in_a_row_differ_in_ranks_and_sizes():
    """Three runs of the same job with the same rank would be one run."""
    for scenario in SCENARIOS.values():
        runs = [drawn(scenario, seed) for seed in "123"]
        assert len({(params.world_size, params.rank) for params in runs}) == 3, scenario.name


def test_healthy_jobs_vary_too_but_for_those_whose_slowest_step_is_their_point():
    """Silence about one healthy job many times would be one silence."""
    steps = {name: {drawn(SCENARIOS[name], str(seed)).step_ms for seed in range(20)} for name in SCENARIOS}

    assert len(steps["healthy_spikes"]) > 1
    assert steps["healthy_growing"] == {50}
