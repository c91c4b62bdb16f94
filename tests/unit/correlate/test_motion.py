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
    in_call,
    scene,
    sighting,
    thread,
)
from tests.unit.snapshots import changed


def later(snapshot: Snapshot, rank: int, **changes) -> Snapshot:
    """The same job with a last look in which columns of this rank changed by so much."""
    last = snapshot.samples[-1]
    columns = {name: getattr(last, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
    for name, delta in changes.items():
        columns[name] = np.where(last.rank == rank, columns[name] + delta, columns[name])
    return changed(snapshot, samples=(*snapshot.samples[:-1], Sample(**columns, sightings=last.sightings)))


def test_nothing_moved_is_an_empty_string():
    """Equal looks: no motion."""
    assert not moved(scene(all_reduce=[0], loader=[1]), (1,))


def test_cpu_time_is_not_motion():
    """Waiters spin."""
    assert not moved(later(scene(all_reduce=[0], spinning=[1]), 1, cpu_s=5.0), (1,))


def test_bytes_of_the_culprit_are_motion():
    """A checkpoint that still writes is alive."""
    snapshot = later(scene(all_reduce=[0], disk=[1]), 1, io_bytes=10_000_000)

    assert "bytes" in moved(snapshot, (1,)).works
    assert not moved(snapshot, (0,))


def test_next_fetch_of_a_loader_worker_is_motion():
    """Data is slow, not stuck."""
    assert "fetched" in moved(later(scene(all_reduce=[0], loader=[1]), 1, fetching=1), (1,)).works


def _with_last_stack(*lines: str) -> Snapshot:
    snapshot = scene(all_reduce=[0], spinning=[1])
    last = snapshot.samples[-1]
    columns = {name: getattr(last, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
    columns["sighting"] = np.where(last.rank == 1, len(last.sightings), last.sighting)
    look = sighting(thread(*lines, state="R"), state="R")
    return changed(
        snapshot, samples=(*snapshot.samples[:-1], Sample(**columns, sightings=(*last.sightings, look)))
    )


def test_another_function_is_motion_and_another_line_of_the_same_is_not():
    """A busy loop changes its line for ever; a rank that works calls different things."""
    outer = ("train /job/train.py:40", "<module> /job/train.py:90")

    assert not moved(_with_last_stack("spin /job/train.py:58", *outer), (1,))
    assert "stack" in moved(_with_last_stack("validate /job/train.py:70", *outer), (1,)).works


def test_one_look_cannot_show_motion():
    """With a single sample nothing is claimed."""
    snapshot = scene(all_reduce=[0], asleep=[1])

    assert not moved(changed(snapshot, samples=snapshot.samples[:1]), (1,))


def with_child(look: Sighting, *, workers: tuple[Sighting, ...] = (), bytes_: int = 10_000_000) -> Snapshot:
    """Rank 1 looks like this, and a child process of it (a metrics daemon, a pool's worker) writes."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.rows[1] = Row(look, workers=workers, children=(Sighting("S", unread="not Python"),))
    snapshot = builder.snapshot()
    last = snapshot.samples[-1]
    io_bytes = last.io_bytes + bytes_ * (last.role == Role.CHILD)
    return changed(snapshot, samples=(*snapshot.samples[:-1], replace(last, io_bytes=io_bytes)))


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
IN_THREAD = sighting(
    thread(f"wait {LIB}/threading.py:320", f"result {LIB}/concurrent/futures/_base.py:451", *TRAIN, **FUTEX),
    thread(
        f"wait {LIB}/subprocess.py:1264",
        f"run {LIB}/concurrent/futures/thread.py:58",
        main=False,
        name="pool_0",
    ),
)


WAITS_FOR_ELSE = {
    **{name: DOINGS[name].look for name in ("queue", "lock", "flock", "stopped")},
    "collective": in_call("all_reduce"),
    "p2p": in_call("recv"),
}


@pytest.mark.parametrize("look", WAITS_FOR_ELSE.values(), ids=WAITS_FOR_ELSE)
def test_bytes_of_a_child_are_no_motion_of_a_rank_that_waits_for_something_else(look):
    """A metrics daemon writes on while its rank is stuck."""
    assert not moved(with_child(look), (1,))


MAY_WAIT_FOR_A_CHILD = {
    "datasets": MAPPING,
    **{name: DOINGS[name].look for name in ("asleep", "spinning", "item", "futex", "unread")},
}  # fmt: skip
WAITS_FOR_A_CHILD = {
    "subprocess": RUNS_MAKE, "pool": IN_POOL, "building": DOINGS["building"].look, "executor": IN_FUTURE,
    "thread": IN_THREAD,
}  # fmt: skip


@pytest.mark.parametrize("look", WAITS_FOR_A_CHILD.values(), ids=WAITS_FOR_A_CHILD)
def test_bytes_of_a_child_that_the_rank_waits_for_are_motion(look):
    """An upload through subprocess.run takes what it takes."""
    motion = moved(with_child(look), (1,))

    assert (motion.works, motion.runs) == (
        "a child process that it waits for reads or writes on rank 1",
        "",
    )


@pytest.mark.parametrize("look", MAY_WAIT_FOR_A_CHILD.values(), ids=MAY_WAIT_FOR_A_CHILD)
def test_bytes_of_a_child_that_the_rank_may_wait_for_are_weak_motion(look):
    """The work may be done there, or by nobody: a poll in a loop has no frame of its own."""
    motion = moved(with_child(look), (1,))

    assert motion.works == ""
    assert motion.runs == "a child process reads or writes on rank 1"
    assert str(motion) == motion.runs


def test_certain_and_weak_motion_are_both_told():
    """The rank writes, and so does its child."""
    motion = moved(later(with_child(DOINGS["asleep"].look), 1, io_bytes=10_000_000), (1,))

    assert str(motion) == f"{motion.works}; {motion.runs}"
    assert "bytes are read or written on rank 1" in motion.works


def test_bytes_of_a_child_say_nothing_of_the_loader_workers():
    """The batch comes from them, and they stand still."""
    stuck = DOINGS["loader"]

    assert not moved(with_child(stuck.look, workers=stuck.workers), (1,))


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
    return changed(before, samples=(*before.samples[:-1], after.samples[-1]))


FORWARD = loop("forward /job/model.py:10", "fit /job/train.py:30")
BACKWARD = loop("backward /job/model.py:20", "fit /job/train.py:30")
FLUSH = loop(f"flush {SITE}/wandb/sdk/stream.py:10")
POLL = loop(f"poll {SITE}/wandb/sdk/stream.py:20")


@pytest.mark.parametrize("name", ["queue", "lock", "futex", "exiting"])
def test_thread_that_moves_is_weak_motion_where_the_main_thread_may_wait_for_it(name):
    """The loop runs in a thread, the main thread waits for its result; or it is a heartbeat that nobody waits for."""
    main = DOINGS[name].look.threads[0]
    motion = moved(between(sighting(main, FORWARD), sighting(main, BACKWARD)), (1,))

    assert (motion.works, motion.runs) == ("", "another thread of it moves on rank 1")
    assert not moved(between(sighting(main, FORWARD), sighting(main, FORWARD)), (1,))


def test_thread_that_trains_and_moves_is_certain_motion():
    """It was met in backward and is elsewhere now: that is the job's own loop, however long it takes."""
    main = DOINGS["queue"].look.threads[0]
    trains = loop(f"backward {SITE}/torch/_tensor.py:625", "fit /job/train.py:30")

    assert moved(between(sighting(main, trains), sighting(main, FORWARD)), (1,)).works
    assert not moved(between(sighting(main, trains), sighting(main, trains)), (1,))


def test_thread_that_moves_is_no_motion_where_nobody_waits_for_it():
    """The main thread sleeps: a thread that runs on does not wake it."""
    main = DOINGS["asleep"].look.threads[0]

    assert not moved(between(sighting(main, FORWARD), sighting(main, BACKWARD)), (1,))


def test_thread_of_a_library_is_no_motion():
    """A logger's own thread polls and flushes for ever; the loop that one waits for has a line of the user's."""
    main = DOINGS["queue"].look.threads[0]

    assert not moved(between(sighting(main, FLUSH), sighting(main, POLL)), (1,))


def test_threads_that_only_one_look_could_read_are_no_motion():
    """Another dumper, other threads: that is no change in the job."""
    main = DOINGS["queue"].look.threads[0]
    other = replace(sighting(main), dumper="faulthandler")

    assert not moved(between(sighting(main, FORWARD), other), (1,))


def test_stack_tree_folds_ranks_into_ranges():
    """Common outer frames are one line; branches carry their ranks."""
    tree = merge(scene(all_reduce=[0, 1, 3], asleep=[2]))

    assert tree[0].ranks == (0, 1, 2, 3)
    text = format_tree(tree)
    assert "[0-1,3]" in text
    assert "evaluate (/job/train.py:55)  [2]" in text
