"""What is asked for often is found out once."""

from __future__ import annotations

import numpy as np
import pytest

from ddetect.correlate import awaited, motion
from ddetect.correlate.motion import changes
from ddetect.correlate.rules.mismatch import fewer
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import presume
from ddetect.frameworks.torch import TORCH
from ddetect.model import Sighting
from tests.unit.correlate.scenes import DOINGS, Row, build, scene


@pytest.mark.parametrize(
    ("counts", "untold", "few"),
    [
        ({}, 0, set()),
        ({"a": 3}, 0, set()),
        ({"a": 3, "b": 1}, 0, {"b"}),
        ({"a": 3, "b": 1}, 2, {"b"}),
        ({"a": 3, "b": 1}, 3, set()),
        ({"a": 2, "b": 2}, 0, {"a", "b"}),
        ({"a": 2, "b": 2}, 1, set()),
        ({"a": 2, "b": 2, "c": 1}, 1, {"c"}),
        ({"a": 5, "b": 3, "c": 1}, 2, {"b", "c"}),
    ],
)
def test_fewer_are_those_that_cannot_become_the_most(counts, untold, few):
    """Whatever the untold called."""
    assert fewer(counts, untold) == few


class Counted(dict[int, int]):
    """Counts how often it is gone through."""

    times = 0

    def items(self):
        self.times += 1
        return super().items()

    def values(self):
        self.times += 1
        return super().values()


def test_each_side_is_not_held_against_all_others():
    """Ten thousand ranks with a shape of their own each are gone through twice."""
    counts = Counted(dict.fromkeys(range(10000), 1))

    assert len(fewer(counts, 0)) == 10_000
    assert counts.times <= 2


def test_columns_of_a_scene_are_found_out_once_for_all_waits():
    """`presume` is asked for every wait and group."""
    stage = Scene(scene(all_reduce=[0], item=[1], asleep=[2]))
    presume(stage, np.array([1, 2]))
    first = stage.may_wait_for_device
    presume(stage, np.array([1, 2]))

    assert stage.may_wait_for_device is first
    assert stage.plainly_elsewhere is stage.plainly_elsewhere


def test_stack_of_a_rank_is_classified_once_for_all_its_children(monkeypatch):
    """A pool has a child per core."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.rows[1] = Row(DOINGS["asleep"].look, children=(Sighting("S", unread="not Python"),) * 4)
    before, after = builder.snapshot().samples[:2]
    object.__setattr__(after, "io_bytes", after.io_bytes + 10_000_000)
    asked: list[Sighting] = []
    original = motion.classify

    def counted(look, *known, **more):
        asked.append(look)
        return original(look, *known, **more)

    monkeypatch.setattr(motion, "classify", counted)
    monkeypatch.setattr(awaited, "classify", counted)

    assert "a child process reads or writes" in changes(before, after, np.array([0, 1]), TORCH)
    # In both looks for its own path, and once for all four children.
    assert len([look for look in asked if look == DOINGS["asleep"].look]) == 3
