"""The words on the bench's command line, and which tools know which framework."""

from __future__ import annotations

import pytest

from ddetect.scenarios.catalogue import TENSORFLOW, TORCH, Params
from tests.hangbench.__main__ import chosen
from tests.hangbench.one import outcome_of
from tests.hangbench.tools import ddetect_launch
from tests.hangbench.tools.all import TOOLS


def test_suites_are_of_one_framework_each():
    """`all` is torch's whole suite, as it was before there was another."""
    assert set(chosen(["all"])) == set(TORCH)
    assert set(chosen(["tensorflow"])) == set(TENSORFLOW)
    assert not set(chosen(["causes", "healthy", "hanging"])) & set(TENSORFLOW)


def test_patterns_find_scenarios_of_every_framework():
    """By name, whatever they train with; a word that finds nothing is an error."""
    assert chosen(["*python_lock"]) == ["python_lock", "tf_python_lock"]
    with pytest.raises(SystemExit, match="no scenario is called 'tensorfow'"):
        chosen(["tensorfow"])


def test_tools_of_torch_cannot_run_a_job_of_tensorflow(tmp_path):
    """They are not started at all."""
    scenario = TENSORFLOW["tf_user_sleep"]

    told = {name: outcome_of(tool, scenario, Params(), tmp_path).cannot for name, tool in TOOLS.items()
            if name not in ("launch", "attach")}  # fmt: skip

    assert told
    assert all("does not know tensorflow" in words for words in told.values())


def test_a_stuck_job_is_ended_in_both_ways_over_a_few_seeds():
    """Torch's, and healthy ones, as ever."""
    seeds = range(1, 4)
    ends = [ddetect_launch.ending(TENSORFLOW["tf_user_sleep"], seed) for seed in seeds]

    assert ends[0] == ends[2] != ends[1]
    assert set(ends) == {ddetect_launch.SIGTERM, ddetect_launch.STOP}
    assert {ddetect_launch.ending(TORCH["user_sleep"], seed) for seed in seeds} == {ddetect_launch.SIGTERM}
    assert {ddetect_launch.ending(TENSORFLOW["tf_healthy_workers"], seed) for seed in seeds} == {"SIGTERM"}
