"""What the page of a TensorFlow task says: numbers of steps, replicas, Python that a step called, its name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ddetect_probe import page as layout

from ddetect.agent.members import JobProcess
from ddetect.agent.pages import called_by_step, fetching_of, lane_rows, read_told, threads_of
from ddetect.agent.sources import PageSource
from ddetect.model import Group, Phase, Role
from ddetect.report.words import name_members

LONG_AGO = 5_000_000_000


class Task:
    """A page that this test writes, and the process that it is of."""

    def __init__(self, folder: Path) -> None:
        self.writer = layout.PageWriter(str(folder), layout.ROLE_RANK)
        self.page = layout.Page(self.writer.path)
        self.process = JobProcess(os.getpid(), 0, Role.RANK, 1, world_size=3, page=self.page)
        self.writer.lane(0, layout.STEP)

    def is_replica_of(self, replicas: int, workers: int = 1, task: str = "", index: int = 0) -> None:
        told = {"kind": "S", "replicas": replicas, "workers": workers, "task": task, "index": index}
        self.writer.text("strategy", json.dumps(told))

    def called(self, what: int, lane: int, age_ns: int = LONG_AGO) -> None:
        since = time.monotonic_ns() - age_ns
        self.writer.row(layout.INNER_AT, (what, lane + 1, 77, 4711, since))


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    one = Task(tmp_path)
    yield one
    one.page.close()


def test_numbers_of_a_step_are_progress(task: Task):
    """With the group that the page names, of all devices together; nothing has fallen out of a ring."""
    task.writer.text("groups", json.dumps([[4, "1", "", "ring", "0-2"]]))
    task.writer.row(layout.SEQS_AT, (1, 4, 130, 128, 127, 1, 0))
    task.writer.row(layout.SEQS_AT + layout.SEQS_WIDTH, (2, 4, 129, 129, 126, 1, 0))

    told = PageSource().read(task.process).comms
    assert told.groups == (Group("ring", "1", "", (0, 1, 2)),)
    progress = told.progress
    row = progress.rank, progress.lane, progress.enqueued, progress.oldest_open, progress.completed
    assert [column.tolist() for column in row] == [[1], [0], [130], [128], [126]]
    assert progress.first_kept.tolist() == [1]


def test_python_of_a_step_tells_its_replica(task: Task):
    """It has lasted: the process is three members, and the main thread stands for the other two."""
    task.is_replica_of(3)
    task.called(layout.INNER_STEP, lane=1)

    rows = lane_rows(task.page, time.monotonic_ns())
    assert [(row.lane, row.phase, row.tid) for row in rows] == [
        (0, layout.STEP, 0),
        (1, layout.OTHER, 4711),
        (2, layout.STEP, 0),
    ]
    assert [(one.lane, one.tid) for one in threads_of(task.process)] == [(1, 4711)]
    assert len(read_told(task.process, time.monotonic_ns()).lanes) == 3


@pytest.mark.parametrize(
    ("what", "lane", "age_ns", "replicas"),
    [
        pytest.param(layout.INNER_DATA, 1, LONG_AGO, 3, id="data is of no replica"),
        pytest.param(layout.INNER_STEP, 1, 1_000_000, 3, id="a call that is short"),
        pytest.param(layout.INNER_STEP, -1, LONG_AGO, 3, id="nobody knows the replica"),
        pytest.param(layout.INNER_STEP, 1, LONG_AGO, 1, id="one replica"),
        pytest.param(layout.INNER_STEP, 5, LONG_AGO, 3, id="more than there are"),
    ],
)
def test_one_member_stays_one(task: Task, what: int, lane: int, age_ns: int, replicas: int):
    """The roster must not flap, and no replica is made up."""
    task.is_replica_of(replicas)
    task.called(what, lane, age_ns)

    assert [row.lane for row in lane_rows(task.page, time.monotonic_ns())] == [0]


@pytest.mark.parametrize(
    ("what", "phase"), [(layout.INNER_DATA, Phase.DATA), (layout.INNER_STEP, Phase.OTHER)]
)
def test_thread_of_such_python_is_marked(task: Task, what: int, phase: Phase):
    """With what it was called for."""
    task.called(what, lane=-1)

    assert [(one.phase, one.tid) for one in called_by_step(task.process)] == [(phase, 4711)]


def test_pipeline_that_calls_python_again_moves(task: Task):
    """Two looks at a generator that goes on differ, two at one that stands do not."""
    task.called(layout.INNER_DATA, lane=-1)
    first, again = (fetching_of(task.process, time.monotonic_ns())[0] for _ in range(2))
    task.called(layout.INNER_DATA, lane=-1)

    assert first == again
    assert fetching_of(task.process, time.monotonic_ns())[0] > first


@pytest.mark.parametrize(
    ("task_name", "index", "said"), [("chief", 0, "chief"), ("evaluator", 0, "evaluator 0"), ("", 0, "")]
)
def test_task_has_the_name_of_its_cluster(task: Task, task_name: str, index: int, said: str):
    """As TF_CONFIG calls it."""
    task.is_replica_of(1, 3, task_name, index)

    assert read_told(task.process, time.monotonic_ns()).task == said


def test_chief_is_named_as_such():
    """Beside its rank; of several nobody is singled out."""
    from ddetect.model import Names

    names = Names(ranks=3, tasks=((0, "chief"),))
    assert name_members((0,), names) == "rank 0 (chief)"
    assert name_members((0, 1), names) == "ranks 0-1"
