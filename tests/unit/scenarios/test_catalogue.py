"""The catalogue and the programs agree, without running any of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ddetect.model import Proof, Status
from ddetect.scenarios.catalogue import FOLDER, SCENARIOS, Params, Scenario, command

ALL = list(SCENARIOS.values())
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "catalogue"})
SHARED = {"__init__", "catalogue", "training", "in_own_network"}


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
    programs = {path.stem for path in FOLDER.glob("*.py")} - SHARED

    assert programs == set(SCENARIOS)


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
    causes = {scenario.cause for scenario in ALL}

    assert {scenario.cause for scenario in ALL if scenario.every_time} == causes


def test_suite_is_as_large_as_it_claims() -> None:
    """At least 45 that hang or stop, at least 12 that are well."""
    healthy = [scenario for scenario in ALL if scenario.status is Status.HEALTHY]

    assert (len(ALL) - len(healthy) >= 45, len(healthy) >= 12) == (True, True)
