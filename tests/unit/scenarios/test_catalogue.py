"""The catalogue and the programs agree, without running any of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ddetect.errors import HostError
from ddetect.model import Proof, Status
from ddetect.scenarios.catalogue import FOLDER, SCENARIOS, TENSORFLOW, TORCH, Params, Scenario, command
from ddetect.scenarios.scenario import TENSORFLOW_FOLDER
from ddetect.scenarios.starting import require, tensorflow_python

ALL = list(SCENARIOS.values())
OURS = {"__init__", "catalogue", "catalogue_tensorflow", "scenario", "starting"}
PROGRAMS = sorted(path for path in FOLDER.glob("**/*.py") if path.stem not in OURS)
SHARED = {
    FOLDER: {*OURS, "training", "in_own_network"},
    TENSORFLOW_FOLDER: {"start_workers", "starving", "training"},
}


def functions_around(path: Path, line: int) -> list[str]:
    """The functions whose body holds a line, innermost last."""
    return [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_marked_lines_stand_in_the_function_that_the_truth_names(scenario: Scenario) -> None:
    """An edit that moves the marker out of its function is seen without a live run."""
    named = {functions_around(scenario.path, line)[-1] for line in scenario.lines}

    assert named == ({scenario.function} if scenario.function else set())


def test_every_program_of_the_folder_has_its_truth() -> None:
    """A program without an entry would never be run."""
    programs = {path for folder in SHARED for path in folder.glob("*.py") if path.stem not in SHARED[folder]}

    assert programs == {scenario.path for scenario in ALL}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_never_imports_ddetect(path: Path) -> None:
    """They play the user's script; the catalogue alone is ours. What a user may import, `ddetect_probe`, they may."""
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] + [getattr(node, "module", None) or ""])
    }

    assert not [name for name in imported if name.partition(".")[0] == "ddetect"]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_command_carries_the_parameters(scenario: Scenario) -> None:
    """What a test varies arrives at the program."""
    line = command(scenario, Params(rank=1, world_size=3, at=17, step_ms=23, extra=("--more", "1")))

    assert line[line.index("--at") : line.index("--at") + 4] == ["--at", "17", "--step-ms", "23"]
    assert line[line.index("--rank") + 1] == "1"
    assert "3" in line
    assert line[line.index("--more") + 1] == "1"


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_culprits_are_ranks_of_the_job_in_order(scenario: Scenario, world_size: int) -> None:
    """Whoever is struck, the truth names ranks that exist, once each."""
    for rank in range(world_size):
        culprits = scenario.culprits(Params(rank=rank, world_size=world_size))

        assert list(culprits) == sorted(set(culprits) & set(range(world_size)))


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_smallest_job_leaves_a_rank_that_waits(scenario: Scenario) -> None:
    """A culprit of a time cause is known by those who wait for it; ranks that only wait for each other need nobody."""
    for rank in range(scenario.min_world):
        culprits = scenario.culprits(Params(rank=rank, world_size=scenario.min_world))

        assert scenario.proof is Proof.STRUCTURAL or len(culprits) < scenario.min_world


def test_every_cause_of_the_suite_is_run_live_every_time() -> None:
    """What `make test` leaves out has a sister with the same cause that it runs."""
    for suite in (TORCH, TENSORFLOW):
        causes = {scenario.cause for scenario in suite.values()}

        assert {s.cause for s in suite.values() if s.every_time} == causes


def test_suite_is_as_large_as_it_claims() -> None:
    """At least 45 that hang or stop, at least 12 that are well."""
    healthy = [scenario for scenario in TORCH.values() if scenario.status is Status.HEALTHY]

    assert (len(TORCH) - len(healthy) >= 45, len(healthy) >= 12) == (True, True)


def test_tensorflow_suite_is_as_large_as_it_claims() -> None:
    """At least 18 that are struck by something, at least 4 that are well."""
    well = {name for name in TENSORFLOW if name.startswith("tf_healthy")}

    assert (len(TENSORFLOW) - len(well) >= 18, len(well) >= 4) == (True, True)


def test_only_workers_of_several_processes_are_started_by_the_starter() -> None:
    """Replicas share a process; a job with a chief, or without one of its workers, says so to the starter."""
    params = Params(rank=1, world_size=3)

    replicas, chief, absent = (
        command(TENSORFLOW[name], params)
        for name in ("tf_replica_eager", "tf_checkpoint_chief", "tf_never_started")
    )

    assert replicas[:2] == [tensorflow_python(), str(TENSORFLOW["tf_replica_eager"].path)]
    assert replicas[-2:] == ["--replicas", "3"]
    assert chief[1].endswith("start_workers.py")
    assert "--chief" in chief
    assert absent[absent.index("--without") + 1] == "1"


def test_interpreter_of_tensorflow_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """DDETECT_TF_PYTHON, else an environment beside ours; one that is not there is one sentence with a remedy."""
    monkeypatch.setenv("DDETECT_TF_PYTHON", "/nowhere/python")

    with pytest.raises(HostError, match="no interpreter /nowhere/python") as failure:
        require(TENSORFLOW["tf_generator"])

    assert "make .venv-tf" in failure.value.hint
    assert tensorflow_python({}).endswith("/.venv-tf/bin/python")
