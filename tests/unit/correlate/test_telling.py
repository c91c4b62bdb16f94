"""Which thread speaks for a process: the one that trains, and never somebody who only stands beside it.

And who works for a thread that waits for a future, a pool or a thread: that one's line is named, and its reason.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate.classify import classify
from ddetect.correlate.judge import judge
from ddetect.correlate.motion import moved
from ddetect.frameworks.kinds import Kind
from ddetect.frameworks.torch import TORCH
from ddetect.model import Cause, Frame, Phase, Process, Proof, Raised, Sighting, Snapshot, Thread, Verdict
from tests.unit.correlate.scenes import C10D, FUTEX, LIB, SITE, SLEEPS, Row, build, frames, sighting, thread
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


# ---------------------------------------------------------------- who works for it


def named(name: str, *lines: str, **more: object) -> Thread:
    return replace(beside(*lines, **more), name=name)


def child(*lines: str, state: str = "S", **more: object) -> Sighting:
    """A process that multiprocessing has started, as the dumper shows it: its parent's frames are cut off."""
    begun = f"run {LIB}/multiprocessing/process.py:108", f"_bootstrap {LIB}/multiprocessing/process.py:314"
    return sighting(thread(*lines, *begun, **{**SLEEPS, "state": state, **more}), state=state)


SOCKET = {"wchan": "wait_woken", "syscall": "sendto", "target": "socket:"}
UPLOADER = named("uploader_0", "send_part /job/upload.py:31", *POOL, **SOCKET)
BOTO = named(
    "uploader_0",
    f"write {LIB}/ssl.py:1166",
    f"request {SITE}/urllib3/connection.py:499",
    f"put_object {SITE}/botocore/client.py:565",
    *POOL,
    **SOCKET,
)
TASK = frames(f"__call__ {SITE}/s3transfer/tasks.py:139")
IDLE = named("uploader_1", f"_worker {LIB}/concurrent/futures/thread.py:81", **FUTEX)
LOCKED = named("other", f"__enter__ {LIB}/threading.py:168", "update /job/cache.py:8", *POOL, **FUTEX)
GETS = thread(
    f"wait {LIB}/threading.py:327", f"get {LIB}/queue.py:171", "next_batch /job/train.py:70", **FUTEX
)
S3 = thread(
    f"wait {LIB}/threading.py:327",
    f"wait {LIB}/threading.py:629",
    f"result {SITE}/s3transfer/futures.py:267",
    f"upload_file {SITE}/boto3/s3/inject.py:145",
    "save /job/train.py:70",
    **FUTEX,
)
ACQUIRES = thread(f"__enter__ {LIB}/threading.py:168", "save /job/train.py:70", **FUTEX)
MAPS = thread(
    f"wait {LIB}/threading.py:327",
    f"wait {LIB}/threading.py:629",
    f"wait {LIB}/multiprocessing/pool.py:765",
    f"get {LIB}/multiprocessing/pool.py:768",
    f"map {LIB}/multiprocessing/pool.py:367",
    "save /job/train.py:70",
    **FUTEX,
)
JOINS_PROCESS = thread(
    f"poll {LIB}/multiprocessing/popen_fork.py:27",
    f"wait {LIB}/multiprocessing/popen_fork.py:43",
    f"join {LIB}/multiprocessing/process.py:149",
    "save /job/train.py:70",
    wchan="do_wait",
    syscall="wait4",
)
MANAGER = named(
    "Thread-1",
    f"select {LIB}/selectors.py:415",
    f"wait {LIB}/multiprocessing/connection.py:947",
    f"wait_result_broken_or_wakeup {LIB}/concurrent/futures/process.py:420",
    f"run {LIB}/concurrent/futures/process.py:350",
)
OF_POOL = f"mapstar {LIB}/multiprocessing/pool.py:48", f"worker {LIB}/multiprocessing/pool.py:125"
OF_EXECUTOR = (f"_process_worker {LIB}/concurrent/futures/process.py:256",)
TAKES = f"recv_bytes {LIB}/multiprocessing/connection.py:216", f"get {LIB}/multiprocessing/queues.py:365"
BUSY = {"state": "R", "wchan": "", "syscall": "", "active": True}
ENCODES = child("encode /job/tokenize.py:12", *OF_POOL, **BUSY)
ENCODES_TOO = child("encode /job/tokenize.py:14", *OF_POOL, **BUSY)
READS = child(
    "read /job/corpus.py:5", *OF_POOL, wchan="nfs_wait_bit_killable", syscall="read", target="/nfs/a"
)
IDLE_CHILD = child(*TAKES, OF_POOL[1], wchan="anon_pipe_read", syscall="read", target="pipe:")
WAITING_CHILD = child(f"__enter__ {LIB}/multiprocessing/synchronize.py:95", TAKES[1], OF_POOL[1], **FUTEX)
STUCK_CHILD = child("encode /job/tokenize.py:12", *OF_POOL, **FUTEX, native=("PyThread_acquire_lock_timed",))
STOPPED_CHILD = child("encode /job/tokenize.py:12", *OF_POOL, state="T")
IN_EXECUTOR = child("encode /job/tokenize.py:12", *OF_EXECUTOR, **BUSY)
IDLE_IN_EXECUTOR = child(*TAKES, *OF_EXECUTOR, wchan="anon_pipe_read", syscall="read", target="pipe:")
DAEMON = sighting(thread("report /job/metrics.py:3", "<module> /job/metrics.py:9", **SLEEPS))


def verdict_of(
    *threads: Thread, children: tuple[Sighting, ...] = (), raised: Raised | None = None
) -> Verdict:
    """Ranks 0 and 2 wait for rank 1, which has these threads and these children."""
    builder = build(3)
    builder.enters(0, "all_reduce")
    builder.enters(2, "all_reduce")
    seen = replace(sighting(*threads), raised=raised)
    builder.rows[1] = Row(seen, Phase.OTHER, children=children)
    return judge(builder.snapshot())


def said_of(verdict: Verdict) -> str:
    (culprit,) = verdict.culprits
    return culprit.doing


@pytest.mark.parametrize(
    ("threads", "cause", "said", "function"),
    [
        (
            (AWAITS, UPLOADER, IDLE),
            Cause.USER_CODE,
            "waits for its thread 'uploader_0', which waits for the network in upload.py:31 send_part",
            "send_part",
        ),
        (
            (AWAITS, WRITER),
            Cause.FILE_IO,
            "waits for its thread 'other', which waits for a file (flock) in save.py:22 write_shard",
            "write_shard",
        ),
        (  # a client's own code has no line of the user's: then where he waits for it is shown
            (AWAITS, BOTO, IDLE),
            Cause.USER_CODE,
            "waits in train.py:70 save for its thread 'uploader_0', which waits for a network answer",
            "save",
        ),
        (  # its own futures wait for an event
            (S3, BOTO, IDLE),
            Cause.USER_CODE,
            "waits in train.py:70 save for its thread 'uploader_0', which waits for a network answer",
            "save",
        ),
        (  # a plain library's line is shown, and is not the one to look at
            (S3, replace(BOTO, stack=(*BOTO.stack[:3], *TASK, *BOTO.stack[3:]))),
            Cause.USER_CODE,
            "waits in train.py:70 save for its thread 'uploader_0', which waits for a network answer in "
            "tasks.py:139 __call__ (a library's line)",
            "save",
        ),
        (
            (AWAITS, UPLOADER, replace(UPLOADER, name="uploader_1")),
            Cause.USER_CODE,
            "waits for its thread 'uploader_0' and 1 more like it, each of which waits for the network in "
            "upload.py:31 send_part",
            "send_part",
        ),
        (  # a library's task beside the user's
            (AWAITS, UPLOADER, replace(BOTO, name="s3_0")),
            Cause.USER_CODE,
            "waits for its thread 'uploader_0', which waits for the network in upload.py:31 send_part",
            "send_part",
        ),
        (
            (GETS, TRAINER, EXPORTER),
            Cause.USER_CODE,
            "waits for its thread 'other', which sleeps in loop.py:12 fetch_rewards",
            "fetch_rewards",
        ),
        (
            (JOINS, TRAINER),
            Cause.USER_CODE,
            "waits for its thread 'other', which sleeps in loop.py:12 fetch_rewards",
            "fetch_rewards",
        ),
    ],
)
@pytest.mark.parametrize("told", [False, True])
def test_thread_that_works_for_the_one_that_waits_is_named(
    threads: tuple[Thread, ...], cause: Cause, said: str, function: str, told: bool
) -> None:
    """The line to look at is the worker's, the cause its own; both stacks are evidence."""
    own = replace(threads[0], lane=0) if told else threads[0]

    verdict = verdict_of(own, *threads[1:])

    assert (verdict.cause, verdict.culprit_ranks, said_of(verdict)) == (cause, (1,), said)
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.function == function
    assert [", thread '" in line for line in verdict.evidence[:2]] == [False, True]


@pytest.mark.parametrize(
    "threads",
    [
        (AWAITS, IDLE),
        (AWAITS, METRICS),  # of no pool
        (AWAITS, LOCKED),  # a deadlock between threads
        (AWAITS, UPLOADER, WRITER),  # which of them?
        (GETS, EXPORTER),
        (GETS, TRAINER, METRICS),
        (JOINS, LOCKED),
        (ACQUIRES, TRAINER),  # who holds a lock is not who works for it
        (ACQUIRES, UPLOADER),
        (AWAITS, MANAGER),
    ],
)
def test_where_nobody_is_seen_to_work_it_is_a_lock(threads: tuple[Thread, ...]) -> None:
    """None, or several that do different things: it waits, and the other threads are evidence."""
    verdict = verdict_of(*threads)

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.PYTHON_LOCK, (1,))
    assert said_of(verdict).startswith("waits for a lock or another thread in train.py:70")
    others = [line for line in verdict.evidence if line.startswith("other thread ")]
    assert len(others) == len(threads) - 1


def test_queue_of_a_thread_that_died_waits_for_nobody_else() -> None:
    """An exception ended a thread: it may well be the one that filled the queue."""
    died = Raised("OSError: shard 17 is truncated", Frame("fill", "/job/data.py", 9))

    assert verdict_of(GETS, TRAINER, raised=died).cause is Cause.PYTHON_LOCK


@pytest.mark.parametrize(
    ("threads", "children", "cause", "said"),
    [
        (
            (MAPS,),
            (IDLE_CHILD, ENCODES, WAITING_CHILD, DAEMON),
            Cause.USER_CODE,
            "waits for child process 4016, which is busy in tokenize.py:12 encode",
        ),
        (
            (MAPS,),
            (ENCODES, ENCODES_TOO),
            Cause.USER_CODE,
            "waits for child process 4015 and 1 more like it, each of which is busy in tokenize.py:12 encode",
        ),
        (
            (MAPS,),
            (IDLE_CHILD, READS),
            Cause.FILE_IO,
            "waits for child process 4016, which waits for a file (read on /nfs/a) in corpus.py:5 read",
        ),
        (  # a lock that was taken when it was forked
            (MAPS,),
            (STUCK_CHILD,),
            Cause.PYTHON_LOCK,
            "waits for child process 4015, which waits for a lock or another thread in tokenize.py:12 encode",
        ),
        (
            (MAPS,),
            (IDLE_CHILD, STOPPED_CHILD),
            Cause.PROCESS_STOPPED,
            "waits for child process 4016, which is stopped (SIGSTOP) in tokenize.py:12 encode",
        ),
        (
            (AWAITS, MANAGER),
            (IDLE_IN_EXECUTOR, IN_EXECUTOR),
            Cause.USER_CODE,
            "waits for child process 4016, which is busy in tokenize.py:12 encode",
        ),
        (
            (JOINS_PROCESS,),
            (child("convert /job/prepare.py:4"), DAEMON),
            Cause.USER_CODE,
            "waits for child process 4015, which sleeps in prepare.py:4 convert",
        ),
    ],
)
def test_child_process_that_works_for_the_rank_is_named(
    threads: tuple[Thread, ...], children: tuple[Sighting, ...], cause: Cause, said: str
) -> None:
    """Which child, at which line, and its own cause; the process to look into is that child."""
    verdict = verdict_of(*threads, children=children)

    (culprit,) = verdict.culprits
    pid = int(said.split()[4].strip(","))
    assert (verdict.cause, verdict.culprit_ranks, culprit.doing) == (cause, (1,), said)
    assert (culprit.process, verdict.proof) == (Process("child_process", -1, pid), Proof.TIME)
    assert any(f"{pid}" in line for line in verdict.advice)


@pytest.mark.parametrize(
    ("threads", "children", "cause"),
    [
        ((MAPS,), (IDLE_CHILD, WAITING_CHILD), Cause.USER_CODE),
        ((MAPS,), (DAEMON,), Cause.USER_CODE),
        ((MAPS,), (ENCODES, READS), Cause.USER_CODE),
        ((MAPS,), (IN_EXECUTOR,), Cause.USER_CODE),
        ((AWAITS, MANAGER), (IDLE_IN_EXECUTOR, DAEMON), Cause.PYTHON_LOCK),
        ((AWAITS, MANAGER), (ENCODES,), Cause.PYTHON_LOCK),
        ((AWAITS, UPLOADER), (IN_EXECUTOR,), Cause.USER_CODE),  # the thread speaks for the rank before
        ((AWAITS, BOTO), (IN_EXECUTOR,), Cause.PYTHON_LOCK),
        ((ACQUIRES,), (ENCODES,), Cause.PYTHON_LOCK),
    ],
)
def test_child_that_works_for_nobody_who_waits_is_not_named(
    threads: tuple[Thread, ...], children: tuple[Sighting, ...], cause: Cause
) -> None:
    """An idle one, a daemon, one of another pool, or several that do different things."""
    verdict = verdict_of(*threads, children=children)

    assert (verdict.cause, verdict.culprits[0].process) == (cause, None)
