"""The exam has what it promises to have, and its truths are in its programs."""

from __future__ import annotations

import re

import pytest

from tests.long.__main__ import chosen, expected_s
from tests.long.case import Frozen, Situation, Suite, limit_s, suspicion_s
from tests.long.catalogue import CASES, HANGS, HEALTHY, TWINS
from tests.long.promises import LANES, LEAST, LEAST_TENSORFLOW
from tests.long.starting import command


def test_there_are_as_many_programs_as_promised():
    assert len(HEALTHY) >= LEAST["healthy"]
    assert sum(case.tensorflow for case in HEALTHY) >= LEAST_TENSORFLOW
    assert len(HANGS) >= LEAST["hang"]
    assert len(CASES) == len(HEALTHY) + len(HANGS) + len(TWINS)


def test_every_healthy_kind_has_a_twin():
    assert {case.name for case in HEALTHY} <= {twin.name.partition(".")[0] for twin in TWINS}


def test_all_noises_and_all_rows_of_the_table_are_met():
    assert {"heartbeat", "psutil", "logger", "tracker", "spinner"} <= {twin.noise for twin in TWINS}
    assert {twin.situation for twin in TWINS} == set(Situation)


@pytest.mark.parametrize("case", [*HANGS, *TWINS], ids=lambda case: case.name)
def test_truth_is_a_marked_function_of_the_program(case):
    """But of one that somebody else stops: it may be anywhere."""
    assert set(case.functions) <= case.marked
    assert case.functions or case.frozen is Frozen.RANK
    assert case.causes


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
def test_healthy_program_takes_six_to_thirty_minutes(case):
    assert 6 * 60 <= case.lasts_s <= 30 * 60


@pytest.mark.parametrize("case", TWINS, ids=lambda case: case.name)
def test_twin_takes_two_to_seven_minutes(case):
    assert expected_s(case) <= 7 * 60


def test_exam_takes_about_an_hour_and_the_longest_begin():
    cases = chosen([], twins=False)

    lasting = [expected_s(case) for case in cases]

    assert sum(lasting) / LANES <= 65 * 60
    assert lasting == sorted(lasting, reverse=True)


def test_names_and_patterns_choose():
    assert {case.name for case in chosen(["steps_*.hang", "rollouts"], twins=False)} == {
        "steps_12s.hang", "steps_45s.hang", "rollouts",
    }  # fmt: skip
    assert {case.suite for case in chosen([], twins=True)} == {Suite.TWIN}
    with pytest.raises(SystemExit, match="no case is called 'nobody'"):
        chosen(["nobody"], twins=False)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_options_of_a_case_are_those_of_its_program(case, tmp_path):
    """A misspelt one would end the job at its first line."""
    words = command(case, shorter=2.0, store="127.0.0.1:1", disk=tmp_path, hung=tmp_path / "hung")
    text = case.path.read_text() + case.path.with_name("pace.py").read_text()
    known = {
        name.replace("-", "_") for name in re.findall(r'"--([a-z-]+)"|(\w+)=', text) for name in name if name
    }
    given = words[words.index(str(case.path)) + 1 :]

    assert {word[2:].replace("-", "_") for word in given if word.startswith("--")} <= known
    assert float(given[given.index("--shorter") + 1]) == 2.0 * case.shorter


def test_programs_know_nothing_of_ddetect():
    """They play the user's script."""
    for path in CASES["steps_12s"].path.parent.glob("*.py"):
        assert not re.search(r"^\s*(import|from) +(ddetect|tests)", path.read_text(), re.MULTILINE), path.name


@pytest.mark.parametrize(
    ("situation", "gap_s", "due_s"),
    [
        (Situation.STRUCTURAL, 200.0, 10.0),
        (Situation.STILL, 45.0, 300.0),
        (Situation.STILL, 200.0, 600.0),
        (Situation.STILL, 2000.0, 3000.0),
        (Situation.POLLS, 200.0, 1800.0),
        (Situation.RUNS, 200.0, 3000.0),
    ],
)
def test_limits_are_those_of_the_table(situation, gap_s, due_s):
    assert limit_s(situation, 300.0, gap_s) == due_s


def test_suspicion_is_due_by_what_is_usual():
    assert suspicion_s(45.0) == 73.5
    assert suspicion_s(0.0) == 35.0
