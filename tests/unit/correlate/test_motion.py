"""Motion of the culprits between looks, and the stack tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.merge import format_tree, merge
from ddetect.correlate.motion import moved
from ddetect.model import Role, Sample, Sighting, Snapshot, Thread
from tests.unit.correlate.scenes import (
    DOINGS,
    FUTEX,
    LIB,
    SITE,
    TRAIN,
    Row,
    build,
    scene,
    sighting,
    thread,
)


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


def with_child(look: Sighting, *, workers: tuple[Sighting, ...] = (), bytes_: int = 10_000_000) -> Snapshot:
    """Rank 1 looks like this, and a child process of it (a metrics daemon, a pool's worker) writes."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.rows[1] = Row(look, workers=workers, children=(Sighting("S", unread="not Python"),))
    snapshot = builder.snapshot()
    last = snapshot.samples[-1]
    io_bytes = last.io_bytes + bytes_ * (last.role == Role.CHILD)
    return replace(snapshot, samples=(*snapshot.samples[:-1], replace(last, io_bytes=io_bytes)))


POOL = thread(
    f"wait {LIB}/multiprocessing/connection.py:947",
    f"wait_result_broken_or_wakeup {LIB}/concurrent/futures/process.py:426",
    f"run {LIB}/concurrent/futures/process.py:357",
    main=False,
    name="QueueManagerThread",
)
MAPPING = sighting(
    thread(
        f"recv {LIB}/multiprocess/connection.py:250",
        f"iflatmap_unordered {SITE}/datasets/utils/py_utils.py:600",
        *TRAIN,
    )
)
IN_POOL = sighting(
    thread(f"wait {LIB}/threading.py:320", f"get {LIB}/multiprocessing/pool.py:768", *TRAIN, **FUTEX)
)
RUNS_MAKE = sighting(thread(f"wait {LIB}/subprocess.py:1264", *TRAIN, syscall="wait4", wchan="do_wait"))
IN_FUTURE = sighting(
    thread(f"wait {LIB}/threading.py:320", f"result {LIB}/concurrent/futures/_base.py:451", *TRAIN, **FUTEX),
    POOL,
)


@pytest.mark.parametrize("name", ["asleep", "spinning", "queue", "lock", "item"])
def test_bytes_of_a_child_that_nobody_waits_for_are_no_motion(name):
    """A metrics daemon writes on while its rank is stuck."""
    assert moved(with_child(DOINGS[name].look), (1,)) == ""


@pytest.mark.parametrize(
    "look",
    [RUNS_MAKE, IN_POOL, IN_FUTURE, MAPPING, DOINGS["building"].look],
    ids=["subprocess", "pool", "executor", "datasets", "building"],
)
def test_bytes_of_a_child_that_the_rank_waits_for_are_motion(look):
    """The work is done there."""
    assert "bytes" in moved(with_child(look), (1,))


def test_bytes_of_a_child_say_nothing_of_the_loader_workers():
    """The batch comes from them, and they stand still."""
    stuck = DOINGS["loader"]

    assert moved(with_child(stuck.look, workers=stuck.workers), (1,)) == ""


def loop(*lines: str) -> Thread:
    return thread(*lines, f"run {LIB}/threading.py:982", main=False, name="loop", state="R")


def between(first: Sighting, last: Sighting) -> Snapshot:
    """Rank 1 looks like `first`, and in the last look like `last`."""
    builders = []
    for look in (first, last):
        builder = build(2)
        builder.enters(0, "all_reduce")
        builder.rows[1] = Row(look)
        builders.append(builder.snapshot())
    before, after = builders
    return replace(before, samples=(*before.samples[:-1], after.samples[-1]))


FORWARD = loop("forward /job/model.py:10", "fit /job/train.py:30")
BACKWARD = loop("backward /job/model.py:20", "fit /job/train.py:30")
FLUSH = loop(f"flush {SITE}/wandb/sdk/stream.py:10")
POLL = loop(f"poll {SITE}/wandb/sdk/stream.py:20")


@pytest.mark.parametrize("name", ["queue", "lock", "futex", "exiting"])
def test_thread_that_moves_is_motion_where_the_main_thread_waits_for_it(name):
    """The loop runs in a thread, the main thread waits for its result."""
    main = DOINGS[name].look.threads[0]

    assert "thread" in moved(between(sighting(main, FORWARD), sighting(main, BACKWARD)), (1,))
    assert moved(between(sighting(main, FORWARD), sighting(main, FORWARD)), (1,)) == ""


def test_thread_that_moves_is_no_motion_where_nobody_waits_for_it():
    """The main thread sleeps: a thread that runs on does not wake it."""
    main = DOINGS["asleep"].look.threads[0]

    assert moved(between(sighting(main, FORWARD), sighting(main, BACKWARD)), (1,)) == ""


def test_thread_of_a_library_is_no_motion():
    """A logger's own thread polls and flushes for ever; the loop that one waits for has a line of the user's."""
    main = DOINGS["queue"].look.threads[0]

    assert moved(between(sighting(main, FLUSH), sighting(main, POLL)), (1,)) == ""


def test_threads_that_only_one_look_could_read_are_no_motion():
    """Another dumper, other threads: that is no change in the job."""
    main = DOINGS["queue"].look.threads[0]
    other = replace(sighting(main), dumper="faulthandler")

    assert moved(between(sighting(main, FORWARD), other), (1,)) == ""


def test_stack_tree_folds_ranks_into_ranges():
    """Common outer frames are one line; branches carry their ranks."""
    tree = merge(scene(all_reduce=[0, 1, 3], asleep=[2]))

    assert tree[0].ranks == (0, 1, 2, 3)
    text = format_tree(tree)
    assert "[0-1,3]" in text
    assert "evaluate (/job/train.py:55)  [2]" in text
