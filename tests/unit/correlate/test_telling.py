"""Which thread speaks for a process: the one that trains, and never somebody who only stands beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate.classify import classify
from ddetect.correlate.judge import judge
from ddetect.correlate.motion import moved
from ddetect.frameworks.kinds import Kind
from ddetect.frameworks.torch import TORCH
from ddetect.model import Cause, Phase, Snapshot, Thread
from tests.unit.correlate.scenes import C10D, FUTEX, LIB, SITE, SLEEPS, Row, build, sighting, thread
from tests.unit.snapshots import changed

POOL = (f"run {LIB}/concurrent/futures/thread.py:58", f"_worker {LIB}/concurrent/futures/thread.py:83")
JOINS = thread(f"join {LIB}/threading.py:1119", "main /job/train.py:70", **FUTEX)
AWAITS = thread(
    f"wait {LIB}/threading.py:327",
    f"result {LIB}/concurrent/futures/_base.py:451",
    "save /job/train.py:70",
    **FUTEX,
)
SERVES = thread(
    f"select {LIB}/selectors.py:468", f"_run_once {LIB}/asyncio/base_events.py:1898", "main /job/train.py:70"
)
SLEEPER = thread("main /job/train.py:55", **SLEEPS)


def beside(*lines: str, **more: object) -> Thread:
    return thread(*lines, main=False, name="other", **{**SLEEPS, **more})


TRAINER = beside("fetch_rewards /job/loop.py:12", "fit /job/loop.py:30")
METRICS = beside("report /job/metrics.py:12")
EXPORTER = beside(f"wait {LIB}/threading.py:327", f"worker {SITE}/opentelemetry/export.py:200", **FUTEX)
WRITER = beside("write_shard /job/save.py:22", *POOL, wchan="locks_lock_inode_wait", syscall="flock")
IN_CALL = beside(f"all_reduce {C10D}:2810", "fit /job/loop.py:30", **FUTEX)
PREFETCHER = beside(f"__next__ {SITE}/torch/utils/data/dataloader.py:733", "fill /job/data.py:9", **FUTEX)


@pytest.mark.parametrize(
    ("main", "other", "speaks"),
    [
        (JOINS, TRAINER, "fetch_rewards"),
        (SERVES, TRAINER, "fetch_rewards"),
        (SERVES, IN_CALL, "fit"),
        (JOINS, PREFETCHER, "fill"),
        (AWAITS, WRITER, "write_shard"),
        (AWAITS, METRICS, "save"),  # no thread of the pool that it waits for
        (AWAITS, EXPORTER, "save"),
        (JOINS, EXPORTER, "main"),  # a library's, and idle
        (SLEEPER, PREFETCHER, "main"),
        (SLEEPER, METRICS, "main"),
        (SLEEPER, IN_CALL, "fit"),
    ],
)
@pytest.mark.parametrize("told", [False, True])
def test_thread_that_trains_speaks(main: Thread, other: Thread, speaks: str, told: bool) -> None:
    """With a page its own thread does, unless that one waits for another; without one the most telling."""
    own = replace(main, lane=0) if told else main
    doing = classify(sighting(own, other), TORCH)

    assert doing.frame is not None
    waits = main is not SLEEPER
    assert doing.frame.function == (speaks if waits or not told else "main")


def test_idle_thread_of_a_pool_leaves_the_word_to_the_one_that_has_the_step() -> None:
    """An executor gives each step to another thread; the page may still name the one of the step before."""
    idle = replace(beside(f"_worker {LIB}/concurrent/futures/thread.py:81", **FUTEX), lane=0)
    backward = beside(
        f"_engine_run_backward {SITE}/torch/autograd/graph.py:979", "step /job/train.py:22", *POOL, **FUTEX
    )

    assert classify(sighting(SERVES, idle, backward), TORCH).kind is Kind.BACKWARD


def test_two_threads_that_could_be_meant_leave_the_word_to_the_main_one() -> None:
    """Nobody knows which of them the main thread waits for."""
    doing = classify(sighting(JOINS, TRAINER, METRICS), TORCH)

    assert (doing.kind, doing.thread) == (Kind.LOCK, JOINS)


def test_thread_of_the_page_without_python_frames_leaves_the_word_to_the_main_one() -> None:
    """It is back in C++: what the process does is still to be seen."""
    gone_below = replace(TRAINER, stack=(), lane=0)

    assert classify(sighting(SLEEPER, gone_below), TORCH).thread == SLEEPER


def stuck_beside(*looks: Thread) -> Snapshot:
    """Ranks 0 and 2 wait for rank 1, whose main thread waits in join() beside another thread."""
    builder = build(3)
    builder.enters(0, "all_reduce")
    builder.enters(2, "all_reduce")
    builder.rows[1] = Row(sighting(JOINS, looks[0]), Phase.OTHER)
    snapshot = builder.snapshot()
    samples = []
    for sample, other in zip(snapshot.samples, looks, strict=False):
        seen = tuple(sighting(JOINS, other) if JOINS in one.threads else one for one in sample.sightings)
        samples.append(replace(sample, sightings=seen))
    return changed(snapshot, samples=tuple(samples))


def test_culprit_is_named_by_the_thread_that_its_main_thread_waits_for() -> None:
    """Not "waits for a lock" at the join() line, which is the same on every rank."""
    verdict = judge(stuck_beside(TRAINER, TRAINER, TRAINER))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.function == "fetch_rewards"


def test_thread_that_only_seems_to_train_is_weak_motion_when_it_moves() -> None:
    """A metrics daemon between two functions puts an alarm off, and not for ever; one that computes is certain."""
    sends = beside("send /job/metrics.py:20", "report /job/metrics.py:12")
    forward = beside(f"forward {SITE}/torch/nn/modules/linear.py:134", "fit /job/loop.py:28")
    backward = beside(f"backward {SITE}/torch/_tensor.py:625", "fit /job/loop.py:29")

    daemon = moved(stuck_beside(METRICS, sends), [1])
    trainer = moved(stuck_beside(forward, backward), [1])

    assert (bool(daemon.works), bool(daemon.runs), bool(trainer.works)) == (False, True, True)
