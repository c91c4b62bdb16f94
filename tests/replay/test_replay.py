"""Recorded evidence of live runs, judged again: the scenario's truth, whatever changed in the rules since.

`NAME.ddsnap` was recorded under `ddetect launch`; `NAME.alone.ddsnap` under `ddetect attach`, without the probe.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddetect.correlate.judge import judge
from ddetect.model import Verdict
from ddetect.scenarios.catalogue import SCENARIOS
from ddetect.wire.file import read_snapshot

RECORDED = Path(__file__).with_name("recorded")
TRUTH = json.loads((RECORDED / "truth.json").read_text())
NOT_SEEN_ALONE = {
    "left_early": "after destroy_process_group a stack looks like any other",
    "mismatch_root": "of three ranks two are roots: both are named",
    "mismatch_shape": "no stack shows a shape",
}


def verdict_on(name: str) -> Verdict:
    return judge(read_snapshot(RECORDED / f"{name}.ddsnap"))


@pytest.mark.parametrize("name", [name for name in TRUTH if not name.endswith(".alone")])
def test_recorded_hang_gets_its_truth(name):
    """Status, cause, culprits and the line, as the scenario carries them."""
    scenario = SCENARIOS[name]

    verdict = verdict_on(name)

    said = (verdict.status, verdict.cause, list(verdict.culprit_ranks), verdict.proof)
    assert said == (scenario.status, scenario.cause, TRUTH[name]["culprits"], scenario.proof), verdict.summary
    if scenario.function is not None:
        functions = {c.where.function.rpartition(".")[2] for c in verdict.culprits if c.where is not None}
        assert scenario.function in functions, verdict.summary


@pytest.mark.parametrize("name", [name for name in TRUTH if name.endswith(".alone")])
def test_hang_recorded_without_the_probe_gets_its_truth_or_is_unsure(name):
    """What stacks alone can tell is told; where they cannot, the verdict is never said with confidence."""
    plain = name.removesuffix(".alone")
    scenario = SCENARIOS[plain]

    verdict = verdict_on(name)

    right = (verdict.status, verdict.cause, list(verdict.culprit_ranks)) == (
        scenario.status, scenario.cause, TRUTH[name]["culprits"],
    )  # fmt: skip
    assert right is (plain not in NOT_SEEN_ALONE), verdict.summary
    if not right:
        assert verdict.confidence < 0.9


def test_recorded_files_name_no_machine():
    """They are evidence of nobody's host."""
    for path in RECORDED.glob("*.ddsnap"):
        snapshot = read_snapshot(path)
        files = {
            frame.file
            for sample in snapshot.samples
            for seen in sample.sightings
            for thread in seen.threads
            for frame in thread.stack
        }
        odd = {
            file
            for file in files
            if file.startswith("/") and not file.startswith(("/job/", "/venv/", "/usr/"))
        }
        assert (path.name, odd) == (path.name, set())
        assert set(snapshot.roster.nodes) <= {"node-0"}
