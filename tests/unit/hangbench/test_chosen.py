"""The words on the bench's command line, and which tools know which framework."""

from __future__ import annotations

import pytest

from ddetect.model import Status
from ddetect.scenarios.catalogue import TENSORFLOW, TORCH, Params
from tests.hangbench.__main__ import chosen, planned
from tests.hangbench.one import outcome_of
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


def test_ends_alone_is_one_hang_per_cause_under_every_end():
    """Each cause of which there is a hang, each end once, and only under `launch`, which is there to the end."""
    runs = planned(["ends"], ["launch", "attach"], ["1"])
    hangs = {run.scenario for run in runs}
    causes = {one.cause for one in TORCH.values() if one.status is Status.HANG}

    assert {TORCH[name].cause for name in hangs} == causes
    assert len(hangs) == len(causes)
    assert len(runs) == len(set(runs)) == len({run.folder for run in runs}) == 5 * len(hangs)
    assert {run.tool for run in runs} == {"launch"}
    with pytest.raises(SystemExit, match="stands alone"):
        planned(["ends", "healthy"], ["launch"], ["1"])
