"""Recorded evidence of live runs, judged again: the scenario's truth, whatever changed in the rules since."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from ddetect.correlate.judge import judge
from ddetect.model import Status
from ddetect.scenarios.catalogue import TORCH
from ddetect.wire.file import read_snapshot
from tests.replay.recordings import RECORDED, Recording, recordings

NOBODYS = frozenset({"job", "venv", "usr", "dev", "proc", "sys"})
FOLDER_OF = re.compile(r"(?<![\w./<])/([\w.+-]+)/")  # the first folder of an absolute path
ADDRESS = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
NOT_SEEN_ALONE = {
    "data_worker_dead.alone": "the worker was gone between two looks; its rank's exit code is all that is known",
    "missing_recv.alone": "who has yet to call recv, and who never will, no stack tells",
    "raised_in_exit.alone": "what was raised before it left is not on the stack any more",
    "left_early.alone": "after destroy_process_group a stack looks like any other",
    "mismatch_root.alone": "of three ranks two are roots: both are named",
    "mismatch_shape.alone": "no stack shows a shape",
}


def test_every_scenario_that_hangs_or_stops_is_recorded():
    """What `make test` does not run live it judges from here."""
    hanging = {name for name, scenario in TORCH.items() if scenario.status is not Status.HEALTHY}

    assert {recording.name for recording in recordings(alone=False)} == hanging


@pytest.mark.parametrize("recording", recordings(alone=False), ids=lambda recording: recording.name)
def test_recorded_hang_gets_its_truth(recording: Recording) -> None:
    """Status, cause, culprits and the line, as the scenario carries them."""
    scenario, verdict = recording.scenario, judge(recording.snapshot())

    assert recording.is_truth(verdict), (recording.params, verdict.summary)
    assert verdict.proof is scenario.proof, verdict.summary
    if scenario.function is not None:
        functions = {c.where.function.rpartition(".")[2] for c in verdict.culprits if c.where is not None}
        assert scenario.function in functions, verdict.summary


@pytest.mark.parametrize("recording", recordings(alone=True), ids=lambda recording: recording.name)
def test_hang_recorded_without_the_probe_gets_its_truth_or_is_unsure(recording: Recording) -> None:
    """What stacks alone can tell is told; where they cannot, the verdict is never said with confidence."""
    verdict = judge(recording.snapshot())

    right = recording.is_truth(verdict)
    assert right is (recording.name not in NOT_SEEN_ALONE), (recording.params, verdict.summary)
    if not right:
        assert verdict.confidence < 0.9


def strings_in(value: object) -> Iterator[str]:
    """Every string that can be reached from a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, np.ndarray):
        yield from strings_in(value.tolist())
    elif isinstance(value, Mapping):
        yield from strings_in([*value.keys(), *value.values()])
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from strings_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from strings_in(getattr(value, field.name))


def test_recorded_files_name_no_machine():
    """They are evidence of nobody's host: no folder of a person's, no name or address of a host."""
    for path in RECORDED.glob("*.ddsnap"):
        snapshot = read_snapshot(path)
        every = set(strings_in(snapshot))
        odd = {text for text in every for found in FOLDER_OF.findall(text) if found not in NOBODYS}
        odd |= {text for text in every for found in ADDRESS.findall(text) if not found.startswith("127.")}
        assert (path.name, odd) == (path.name, set())
        assert all(re.fullmatch(r"node-\d+", node) for node in snapshot.roster.nodes), path.name
