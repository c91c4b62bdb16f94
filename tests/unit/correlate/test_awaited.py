"""Whom does a member wait for, and how do those move that it waits for? Looks as the agent meters them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.motion import moved
from ddetect.model import Efforts, Role, Sighting, Snapshot, Thread
from tests.unit.correlate.scenes import (
    DOINGS,
    FUTEX,
    LIB,
    TRAIN,
    Row,
    build,
    in_call,
    sighting,
    thread,
)

NATIVE = -1
KB = 1024
POOLED = f"run {LIB}/concurrent/futures/thread.py:58"
UPLOAD = thread(
    "send_part /job/upload.py:31", POOLED, main=False, name="uploader_0", syscall="sendto", target="socket:"
)
RESULT = thread(
    f"wait {LIB}/threading.py:320", f"result {LIB}/concurrent/futures/_base.py:451", *TRAIN, **FUTEX
)
LOCKED = thread("take /job/cache.py:12", f"acquire {LIB}/threading.py:180", *TRAIN, **FUTEX)
HEART = thread("beat /job/heart.py:7", f"run {LIB}/threading.py:982", main=False, name="heart")
CHILD = Sighting("S", unread="not Python")


def metered(
    look: Sighting,
    efforts: list[tuple[int, int, float, int, int]],
    *,
    workers: tuple[Sighting, ...] = (),
    children: tuple[Sighting, ...] = (),
    moved_bytes: int = 0,
    own_session: bool = False,
    tick_age_s: float = 0.2,
) -> Snapshot:
    """Rank 1 looks like this in three looks; efforts: (role, place, busy, runs, bytes) over half a minute."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.rows[1] = Row(look, workers=workers, children=children, tick_age_s=tick_age_s)
    snapshot = builder.snapshot()
    newest = snapshot.newest
    sample = newest.sample
    pid_of = {
        int(role): int(pid)
        for role, pid, rank in zip(sample.role, sample.pid, sample.rank, strict=True)
        if rank == 1
    }
    rows = [(1, pid_of[role], place, busy, runs, count, 0.5) for role, place, busy, runs, count in efforts]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 7
    told = replace(
        sample,
        metered_s=np.full(len(sample), 30.0),
        moved_bytes=np.where(sample.rank == 1, moved_bytes, 0),
        own_session=np.where(sample.role == Role.CHILD, int(own_session), 0),
    )
    look_ = replace(newest, sample=told, efforts=Efforts(*columns))
    return replace(snapshot, looks=(*snapshot.looks[:-1], look_))


def grade(snapshot: Snapshot) -> str:
    motion = moved(snapshot, (1,))
    return "works" if motion.works else "runs" if motion.runs else "polls" if motion.polls else ""


ASLEEP, SPINS = DOINGS["asleep"].look, DOINGS["spinning"].look


@pytest.mark.parametrize(
    ("look", "efforts", "expected"),
    [
        (ASLEEP, [], ""),
        (ASLEEP, [(Role.RANK, 0, 0.00001, 1, 0)], ""),
        (ASLEEP, [(Role.RANK, 0, 0.001, 9, 0)], "polls"),
        (ASLEEP, [(Role.RANK, 0, 0.02, 40, 0)], "runs"),
        (ASLEEP, [(Role.RANK, 0, 0.001, 9, 40 * KB)], "works"),
        (ASLEEP, [(Role.RANK, 0, 0.001, 9, 20 * KB)], "polls"),
        (SPINS, [(Role.RANK, 0, 1.0, 300, 0)], "runs"),
        (in_call("all_reduce"), [(Role.RANK, 0, 1.0, 300, 90 * KB)], ""),
        (DOINGS["stopped"].look, [(Role.RANK, 0, 1.0, 3, 0)], ""),
    ],
    ids=["stands", "was woken once", "wakes up", "runs", "receives 1.3 kB/s", "receives 0.7 kB/s", "spins",
         "spins in a collective", "stopped"],
)  # fmt: skip
def test_own_thread_of_a_rank_has_three_grades(look, efforts, expected):
    """And a spin inside a collective, or what a stopped process did before, is none."""
    assert grade(metered(look, efforts)) == expected


def test_upload_in_a_pool_is_work_of_the_rank_that_waits_for_its_future():
    """future.result(): the main thread stands, and the thread that works for it sends 2 kB/s."""
    look = sighting(RESULT, UPLOAD)

    assert grade(metered(look, [(Role.RANK, 1, 0.001, 30, 60 * KB)])) == "works"
    assert grade(metered(look, [(Role.RANK, 1, 0.001, 30, 0)])) == "polls"
    assert grade(metered(look, [])) == ""


def test_heartbeat_beside_a_lock_never_works():
    """Nobody knows whether it holds the lock: it may run, for ten patiences, and not for ever."""
    look = sighting(LOCKED, HEART)

    assert grade(metered(look, [(Role.RANK, 1, 0.001, 30, 900 * KB)])) == "runs"
    assert grade(metered(look, [(Role.RANK, 1, 0.001, 30, 50)])) == "polls"


def test_threads_below_python_count_while_the_rank_waits_in_native_code():
    """A tokenizer's pool; timers and pools that only wake up say nothing."""
    futex = DOINGS["futex"].look

    assert grade(metered(futex, [(Role.RANK, NATIVE, 0.9, 300, 0)])) == "runs"
    assert grade(metered(futex, [(Role.RANK, NATIVE, 0.002, 300, 0)])) == ""
    assert grade(metered(ASLEEP, [(Role.RANK, NATIVE, 0.9, 300, 0)])) == ""


def test_loader_worker_speaks_for_the_rank_that_waits_for_it():
    """The rank polls every five seconds while its worker is stuck; a worker that downloads works."""
    loader = DOINGS["loader"]

    def look(*efforts: tuple[int, int, float, int, int]) -> Snapshot:
        return metered(loader.look, list(efforts), workers=loader.workers)

    assert grade(look((Role.RANK, 0, 0.001, 6, 0))) == ""
    assert grade(look((Role.LOADER_WORKER, 0, 0.001, 6, 60 * KB))) == "works"
    assert grade(look((Role.LOADER_WORKER, 0, 0.5, 6, 0))) == "runs"


def test_child_that_is_waited_for_runs_and_works():
    """An evaluation in a subprocess is silent for minutes; one that uploads moves bytes."""
    waits = sighting(thread(f"wait {LIB}/subprocess.py:1264", *TRAIN, syscall="wait4", wchan="do_wait"))

    def look(busy: float, count: int, **more: bool) -> Snapshot:
        return metered(waits, [(Role.CHILD, NATIVE, busy, 9, count)], children=(CHILD,), **more)

    assert grade(look(0.9, 0)) == "runs"
    assert grade(look(0.001, 60 * KB)) == "works"
    assert grade(look(0.001, 0)) == "polls"
    assert grade(look(0.001, 60 * KB, own_session=True)) == "runs"


def test_who_holds_the_gil_is_asked_and_not_who_waits_for_it():
    """Threads that wait for the GIL wake up 200 times a second."""
    gil = sighting(
        thread("crunch /job/native.py:21", *TRAIN, **FUTEX),
        replace(HEART, owns_gil=True),
    )

    assert grade(metered(gil, [(Role.RANK, 0, 0.05, 6000, 0)], tick_age_s=9.0)) == ""
    assert grade(metered(gil, [(Role.RANK, 1, 0.9, 6000, 0)], tick_age_s=9.0)) == "runs"


@pytest.mark.parametrize(("count", "expected"), [(0, ""), (100, ""), (1500, "polls")])
def test_other_bytes_of_the_process_poll(count, expected):
    """A heartbeat of 50 B/s puts an alarm off, to three times at most; less is nothing."""
    assert grade(metered(ASLEEP, [], moved_bytes=count)) == expected


def test_age_of_bytes_is_told():
    """They moved half a second ago, not now."""
    motion = moved(metered(ASLEEP, [(Role.RANK, 0, 0.001, 9, 90 * KB)]), (1,))

    assert motion.works_age_s == 0.5
    assert math.isfinite(motion.works_age_s)


def test_thread_by_its_place() -> None:
    """Two threads of one name are two."""
    twin = replace(HEART, stack=HEART.stack[::-1])
    assert isinstance(twin, Thread)
    look = sighting(LOCKED, HEART, twin)

    assert grade(metered(look, [(Role.RANK, 2, 0.5, 30, 0)])) == "runs"
