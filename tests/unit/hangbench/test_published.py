"""The figures in the README are those of the runs that are kept beside the bench, and hold what we promise."""

from __future__ import annotations

import pytest

from tests.hangbench.publish import README, TABLES, between, published
from tests.hangbench.table import summary


@pytest.mark.parametrize("name", TABLES)
def test_readme_shows_the_published_run(name):
    """Nobody edits a figure by hand."""
    assert between(name, README.read_text()) == TABLES[name](published(name))


@pytest.mark.parametrize(("tool", "share"), [("launch", 0.98), ("attach", 0.85)])
def test_three_full_runs_keep_the_promise(tool, share):
    """Right culprit and cause with the probe and without it, and silence about every healthy job."""
    mine = [one for one in published("suite")["runs"] if one["tool"] == tool]
    seeds = {one["seed"] for one in mine}
    assert len(seeds) >= 3
    for seed in seeds:
        counted = summary(one for one in mine if one["seed"] == seed)
        assert counted["hanging"] >= 45
        assert counted["healthy"] >= 12
        assert counted["right_both"] >= share * counted["hanging"]
        assert counted["false_alarms"] == 0
