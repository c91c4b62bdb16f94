"""Motion of the culprits between looks, and the stack tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddetect.correlate.merge import format_tree, merge
from ddetect.correlate.motion import moved
from ddetect.model import Sample, Snapshot
from tests.unit.correlate.scenes import scene, sighting, thread


def later(snapshot: Snapshot, rank: int, **changes) -> Snapshot:
    """The same job with a last look in which columns of this rank changed by so much."""
    last = snapshot.samples[-1]
    columns = {name: getattr(last, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
    for name, delta in changes.items():
        columns[name] = np.where(last.rank == rank, columns[name] + delta, columns[name])
    return replace(snapshot, samples=(*snapshot.samples[:-1], Sample(**columns, sightings=last.sightings)))


def test_nothing_moved_is_an_empty_string():
    """Equal looks: no motion."""
    assert moved(scene(all_reduce=[0], loader=[1]), (1,)) == ""


def test_cpu_time_is_not_motion():
    """Waiters spin."""
    assert moved(later(scene(all_reduce=[0], spinning=[1]), 1, cpu_s=5.0), (1,)) == ""


def test_bytes_of_the_culprit_are_motion():
    """A checkpoint that still writes is alive."""
    snapshot = later(scene(all_reduce=[0], disk=[1]), 1, io_bytes=10_000_000)

    assert "bytes" in moved(snapshot, (1,))
    assert moved(snapshot, (0,)) == ""


def test_next_fetch_of_a_loader_worker_is_motion():
    """Data is slow, not stuck."""
    assert "fetched" in moved(later(scene(all_reduce=[0], loader=[1]), 1, fetching=1), (1,))


def _with_last_stack(*lines: str) -> Snapshot:
    snapshot = scene(all_reduce=[0], spinning=[1])
    last = snapshot.samples[-1]
    columns = {name: getattr(last, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
    columns["sighting"] = np.where(last.rank == 1, len(last.sightings), last.sighting)
    look = sighting(thread(*lines, state="R"), state="R")
    return replace(
        snapshot, samples=(*snapshot.samples[:-1], Sample(**columns, sightings=(*last.sightings, look)))
    )


def test_another_function_is_motion_and_another_line_of_the_same_is_not():
    """A busy loop changes its line for ever; a rank that works calls different things."""
    outer = ("train /job/train.py:40", "<module> /job/train.py:90")

    assert moved(_with_last_stack("spin /job/train.py:58", *outer), (1,)) == ""
    assert "stack" in moved(_with_last_stack("validate /job/train.py:70", *outer), (1,))


def test_one_look_cannot_show_motion():
    """With a single sample nothing is claimed."""
    snapshot = scene(all_reduce=[0], asleep=[1])

    assert moved(replace(snapshot, samples=snapshot.samples[:1]), (1,)) == ""


def test_stack_tree_folds_ranks_into_ranges():
    """Common outer frames are one line; branches carry their ranks."""
    tree = merge(scene(all_reduce=[0, 1, 3], asleep=[2]))

    assert tree[0].ranks == (0, 1, 2, 3)
    text = format_tree(tree)
    assert "[0-1,3]" in text
    assert "evaluate (/job/train.py:55)  [2]" in text
