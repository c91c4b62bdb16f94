"""One rank is outside the collective: its own sighting gives the cause, the line and the process."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge, wants_native
from ddetect.model import (
    UNKNOWN,
    CallSpec,
    Cause,
    Frame,
    Group,
    Phase,
    Proof,
    Raised,
    Sample,
    Sighting,
    Status,
    Where,
)
from tests.unit.correlate.scenes import (
    FUTEX,
    IDLE_WORKER,
    LIB,
    SITE,
    SLEEPS,
    STUCK_WORKER,
    TRAIN,
    Row,
    build,
    in_call,
    scene,
    sighting,
    thread,
    without_page,
)
from tests.unit.snapshots import changed


@pytest.mark.parametrize(
    ("what", "cause", "proof", "function"),
    [
        ("loader", Cause.DATA_LOADING, Proof.TIME, "read_shard"),
        ("fetch", Cause.DATA_LOADING, Proof.TIME, "read_shard"),
        ("asleep", Cause.USER_CODE, Proof.TIME, "evaluate"),
        ("spinning", Cause.USER_CODE, Proof.TIME, "spin"),
        ("pdb", Cause.USER_CODE, Proof.STRUCTURAL, "inspect_batch"),
        ("input", Cause.USER_CODE, Proof.STRUCTURAL, "ask"),
        ("http", Cause.USER_CODE, Proof.TIME, "report"),
        ("lock", Cause.PYTHON_LOCK, Proof.TIME, "take"),
        ("queue", Cause.PYTHON_LOCK, Proof.TIME, "next_item"),
        ("futex", Cause.PYTHON_LOCK, Proof.TIME, "take"),
        ("gil", Cause.GIL_HELD, Proof.TIME, "crunch"),
        ("stopped", Cause.PROCESS_STOPPED, Proof.STRUCTURAL, "train"),
        ("flock", Cause.FILE_IO, Proof.TIME, "lock_cache"),
        ("fifo", Cause.FILE_IO, Proof.TIME, "read_pipe"),
        ("disk", Cause.FILE_IO, Proof.TIME, "save"),
        ("building", Cause.BUILDING, Proof.TIME, "train"),
        ("leaving", Cause.LEFT_EARLY, Proof.STRUCTURAL, "finish"),
        ("exiting", Cause.LEFT_EARLY, Proof.STRUCTURAL, None),
        ("computing", Cause.USER_CODE, Proof.TIME, "train"),
    ],
)
@pytest.mark.parametrize("rank", [0, 2, 3])
def test_rank_outside_the_collective_is_named_with_its_own_reason(rank, what, cause, proof, function):
    """The rank outside the collective is the culprit, whatever its number and whatever it does."""
    others = [r for r in range(4) if r != rank]

    verdict = judge(scene(all_reduce=others, **{what: [rank]}))

    assert (verdict.status, verdict.cause, verdict.proof) == (Status.HANG, cause, proof)
    assert verdict.culprit_ranks == (rank,)
    assert (verdict.culprits[0].where and verdict.culprits[0].where.function) == function
    assert verdict.waiting[0].ranks == tuple(others)
    assert (verdict.waiting[0].on, verdict.waiting[0].seq) == ("all_reduce", 412)


def test_stuck_loader_worker_is_named_in_the_sentence_of_the_design():
    """The summary names the rank, the loader worker, its line, and who waits in what."""
    verdict = judge(scene(all_reduce=[0, 1, 3], loader=[2]))

    assert verdict.summary == (
        "rank 2 waits for its DataLoader: loader worker 1 (pid 4022) sleeps in dataset.py:88 read_shard; "
        "ranks 0-1,3 wait for it in all_reduce #412 of default_pg"
    )
    culprit = verdict.culprits[0]
    assert culprit.process is not None
    assert (culprit.process.role, culprit.process.index, culprit.process.pid) == ("loader_worker", 1, 4022)
    assert culprit.where == Where("read_shard", "dataset.py", 88)
    assert any("/job/dataset.py:88" in line for line in verdict.evidence)


def test_two_busy_workers_the_longest_fetch_is_named():
    """Of two loader workers that fetch, the one that fetches longest holds the batch up."""
    snapshot = scene(all_reduce=[0], loader=[1])
    newest = snapshot.samples[-1]
    columns = {name: getattr(newest, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
    stuck = newest.sightings.index(STUCK_WORKER)
    columns["sighting"] = [stuck if i >= 0 else s for i, s in zip(newest.index, newest.sighting, strict=True)]
    columns["fetching"] = [7 if index >= 0 else -1 for index in newest.index]
    columns["fetch_age_s"] = [{0: 30.0, 1: 2.0}.get(int(index), math.inf) for index in newest.index]
    snapshot = changed(snapshot, samples=(Sample(**columns, sightings=newest.sightings),))

    verdict = judge(snapshot)

    assert verdict.culprits[0].process is not None
    assert verdict.culprits[0].process.index == 0


@pytest.mark.parametrize(("state", "cause"), [("T", Cause.PROCESS_STOPPED), ("D", Cause.FILE_IO)])
def test_loader_worker_held_by_the_kernel_gives_the_cause(state, cause):
    """A stopped worker is a stopped process, one in D is file I/O; the worker is named, not the rank process."""
    builder = build(3)
    builder.enters(0, "all_reduce")
    builder.enters(2, "all_reduce")
    row = builder.does(1, "loader")
    row.workers = (IDLE_WORKER, Sighting(state, (replace(STUCK_WORKER.threads[0], state=state),), "py-spy"))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (cause, (1,))
    assert verdict.culprits[0].process is not None
    assert verdict.culprits[0].process.index == 1


def test_idle_workers_are_not_accused():
    """When every loader worker is idle the rank's own line is shown, with less confidence."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "loader").workers = (IDLE_WORKER, IDLE_WORKER)

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprits[0].process) == (Cause.DATA_LOADING, None)
    assert verdict.culprits[0].where == Where("train", "train.py", 40)
    assert verdict.confidence < judge(scene(all_reduce=[0], loader=[1])).confidence


PIN = f"{SITE}/torch/utils/data/_utils/pin_memory.py"
PIN_LOOP = (f"do_one_step {PIN}:28", f"_pin_memory_loop {PIN}:52", f"run {LIB}/threading.py:982")


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        (
            ("pin_memory /job/batch.py:7", f"pin_memory {PIN}:60", *PIN_LOOP),
            Where("pin_memory", "batch.py", 7),
        ),
        ((f"pin_memory {PIN}:57", *PIN_LOOP), Where("train", "train.py", 40)),
        ((f"get {LIB}/multiprocessing/queues.py:113", *PIN_LOOP), Where("train", "train.py", 40)),
    ],
    ids=["in the batch's own code", "in torch", "idle"],
)
def test_thread_that_pins_memory_is_accused_when_it_holds_the_batch(frames, where):
    """The workers have delivered and the rank waits for its own thread; one that waits for a batch holds none."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "loader")
    row.workers = (IDLE_WORKER, IDLE_WORKER)
    row.look = sighting(*row.look.threads, thread(*frames, main=False, name="pins", **SLEEPS))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprits[0].where) == (Cause.DATA_LOADING, where)
    assert ("thread 'pins', which pins memory, sleeps" in verdict.culprits[0].doing) == (frames[0][0] == "p")


def test_page_says_data_but_stack_is_unread_is_still_data_loading():
    """The phase of the page is enough to say data loading."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "unread").phase = Phase.DATA

    assert judge(builder.snapshot()).cause is Cause.DATA_LOADING


def test_lock_shows_the_other_thread():
    """Who may hold the lock is in the evidence."""
    verdict = judge(scene(all_reduce=[0], lock=[1]))

    assert any("refill (/job/cache.py:30)" in line for line in verdict.evidence)


def test_lock_shows_the_exception_that_ended_a_thread():
    """A queue stays empty because the thread that filled it died: its exception is in the evidence."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "queue")
    row.look = replace(row.look, raised=Raised("OSError: shard 17", Frame("prefetch", "/job/feed.py", 5)))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.PYTHON_LOCK, (1,))
    assert "a thread of it died of OSError: shard 17 in feed.py:5 prefetch" in verdict.evidence


def test_rank_that_does_not_get_out_after_its_exception_is_named_with_the_exception():
    """The process lives on (a thread that is no daemon), so the job hangs; the exception is what happened."""
    builder = build(4)
    for rank in (0, 1, 3):
        builder.enters(rank, "all_reduce")
    row = builder.does(2, "exiting")
    row.look = replace(
        row.look, raised=Raised("ValueError: bad", Frame("parse", "/job/data.py", 9), fatal=True)
    )

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.cause, verdict.proof) == (
        Status.HANG,
        Cause.PYTHON_EXCEPTION,
        Proof.STRUCTURAL,
    )
    assert verdict.culprit_ranks == (2,)
    assert verdict.culprits[0].where == Where("parse", "data.py", 9)


def test_rank_that_has_just_raised_is_given_time_to_get_out():
    """It tears down: a second after its exception nothing contradicts that it will end."""
    builder = build(2)
    builder.age_s = 1.0
    builder.enters(0, "all_reduce")
    row = builder.does(1, "exiting")
    row.look = replace(row.look, raised=Raised("ValueError: bad", fatal=True))

    assert judge(builder.snapshot()).proof is Proof.TIME


def test_rank_that_still_works_on_its_end_is_not_stuck_in_it():
    """An overloaded machine: seconds after its exception it frees its memory, and Python's stack is gone."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "exiting")
    row.look = sighting(state="R", unread="its stack was empty")
    row.look = replace(row.look, raised=Raised("ValueError: bad", fatal=True))

    assert judge(builder.snapshot()).proof is Proof.TIME


def test_exception_of_a_thread_does_not_explain_a_rank_that_leaves():
    """Only the exception that ends the process tells why it leaves."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "exiting")
    row.look = replace(row.look, raised=Raised("OSError: shard 17"))

    assert judge(builder.snapshot()).cause is Cause.LEFT_EARLY


def test_job_that_is_stopped_as_a_whole_is_given_time():
    """All ranks at once is somebody's decision; one among running ones is not."""
    proofs = [judge(scene(stopped=[0, 1, 2])).proof, judge(scene(all_reduce=[0, 2], stopped=[1])).proof]

    assert proofs == [Proof.TIME, Proof.STRUCTURAL]


def test_rank_that_waits_for_its_pool_shows_what_the_pool_does():
    """The children of a rank that waits for one of them are in the evidence, each with its stack."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    waits = thread(
        f"wait {LIB}/threading.py:1", f"map {LIB}/multiprocessing/pool.py:1", "convert /job/prep.py:3", *TRAIN
    )
    row = Row(sighting(waits), children=(sighting(thread("tokenize /job/prep.py:7", **SLEEPS)),))
    builder.rows[1] = row

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1,))
    assert any(
        line.startswith("child process of rank 1 (pid 4015)") and "tokenize" in line
        for line in verdict.evidence
    )


def test_gil_owner_alone_proves_nothing():
    """A thread that owns the GIL while ticks go on is only running."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "gil").tick_age_s = 0.3

    assert judge(builder.snapshot()).cause is Cause.USER_CODE


def test_lost_tick_alone_proves_nothing():
    """A tick that stopped without an owner of the GIL (throttling, finalization) is no held GIL."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "asleep").tick_age_s = 30.0

    assert judge(builder.snapshot()).cause is Cause.USER_CODE


def test_gil_held_by_a_second_thread_names_its_line():
    """The line named is that of the thread that holds the GIL, even when the main thread sits in a collective."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "gil")
    holder = thread("hold /job/native.py:7", main=False, name="pool", owns_gil=True)
    row.look = sighting(thread(f"all_reduce {TRAIN[0].split()[1]}"), holder)

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprits[0].where) == (Cause.GIL_HELD, Where("hold", "native.py", 7))


def test_native_stack_without_a_lock_makes_it_user_code():
    """Asked for, the native stack decides: no Python lock in it, so it is the user's call that waits."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "futex")
    assert wants_native(builder.snapshot()) == (4010,)
    row.look = sighting(replace(row.look.threads[0], native=("__futex_wait", "wait_for_codec")))

    assert wants_native(builder.snapshot()) == ()
    assert judge(builder.snapshot()).cause is Cause.USER_CODE


def test_waiters_are_not_asked_for_native_stacks():
    """A native dump pauses the process: only a culprit is worth it."""
    assert wants_native(scene(all_reduce=[0, 1], asleep=[2])) == ()


def test_ddp_wait_in_backward_is_seen_through_the_recorder():
    """On gloo a DDP wait shows only `_engine_run_backward`; the open operation says that it waits."""
    verdict = judge(scene(backward=[0, 1, 3], asleep=[2]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))
    assert verdict.waiting[0].ranks == (0, 1, 3)


def test_async_collective_open_while_the_host_sleeps_is_not_a_wait():
    """An open gloo collective does not excuse a rank that sleeps in the user's code."""
    builder = build(3, seq=10)
    builder.enters(0, "all_reduce", seq=11)
    builder.enters(1, "all_reduce", seq=11)
    builder.does(2, "asleep")
    builder.enters(2, "all_reduce", seq=10)

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))
    assert all(2 not in waiting.ranks for waiting in verdict.waiting)


def test_chain_of_waits_ends_at_its_root():
    """Ranks 0,1 wait for 2, which waits for 3 in another group: 3 is the culprit."""
    groups = [Group("gloo", "0", "default_pg", (0, 1, 2, 3)), Group("gloo", "1", "tp", (2, 3))]
    builder = build(4, groups, seq=5)
    builder.enters(0, "all_reduce", seq=5)
    builder.enters(1, "all_reduce", seq=5)
    builder.enters(2, "broadcast", group=1, seq=5)
    builder.rows[2].enqueued[0] = 4
    builder.does(3, "loader")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (3,))
    assert {waiting.ranks for waiting in verdict.waiting} == {(0, 1), (2,)}


def test_single_process_job_is_its_own_culprit():
    """With one rank nobody waits; its own sighting speaks."""
    verdict = judge(scene(world=1, asleep=[0]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.HANG, Cause.USER_CODE, (0,))


def test_all_ranks_stuck_on_the_same_disk_are_all_named():
    """Nobody waits for anybody and all stand still at the same thing: all are named."""
    verdict = judge(scene(disk=[0, 1, 2]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.FILE_IO, (0, 1, 2))


def test_installed_package_and_probe_are_not_user_code():
    """The line is where the user called the package; the package is in the evidence."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    builder.does(1, "asleep").look = sighting(
        thread("hook /x/ddetect_probe/torch_.py:1", f"pull {SITE}/acme_data/io.py:9", *TRAIN, **SLEEPS)
    )

    verdict = judge(builder.snapshot())

    assert verdict.culprits[0].where == Where("train", "train.py", 40)
    assert any("pull (acme_data/io.py:9)" in line for line in verdict.evidence)


def test_rooted_operation_accuses_the_root_and_not_the_other_leaves():
    """A broadcast receiver waits for the root: another leaf that has not come yet is not at fault."""
    builder = build(4)
    for rank in (2, 3):
        builder.enters(rank, "broadcast", signature=CallSpec("broadcast", "[[4]]", "[Float]", root=1))
    builder.does(0, "loader")
    builder.does(1, "asleep")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1,))


def test_no_page_anywhere_still_names_the_rank():
    """Without the probe the recorder and the stacks are enough."""
    snapshot = scene(all_reduce=[0, 1, 3], asleep=[2])
    for rank in range(4):
        snapshot = without_page(snapshot, rank)

    assert judge(snapshot).culprit_ranks == (2,)


def test_rank_blocked_in_backward_is_excused_for_the_operation_it_has_not_reached():
    """Rank 2 has not entered what 0 and 1 wait in, because DDP holds it in another group: only 3 is at fault."""
    groups = [Group("gloo", "0", "default_pg", (0, 1, 2, 3)), Group("gloo", "1", "replicas", (2, 3))]
    builder = build(4, groups, seq=5)
    builder.enters(0, "all_reduce")
    builder.enters(1, "all_reduce")
    builder.does(2, "computing")
    builder.enters(2, "all_reduce", group=1)
    builder.does(3, "asleep")

    assert judge(builder.snapshot()).culprit_ranks == (3,)


def test_gpu_of_the_culprit_is_in_the_evidence():
    """An idle GPU beside a rank in the kernel says a lot; without NVML nothing is said."""
    stuck = scene(all_reduce=[0, 1, 3], asleep=[2])
    sample = replace(stuck.samples[-1], gpu_busy=np.where(stuck.samples[-1].rank == 2, 0.0, np.nan))

    verdict = judge(changed(stuck, samples=(*stuck.samples[:-1], sample)))

    assert any("rank 2" in line and "GPU 0 % busy" in line for line in verdict.evidence)
    assert not any("GPU" in line for line in judge(stuck).evidence)
    untold = replace(sample, gpu_busy=np.full(len(sample), UNKNOWN))
    assert not any("GPU" in line for line in judge(changed(stuck, samples=(untold,))).evidence)


TIMED_OUT = "RuntimeError: Timed out waiting 35000ms for recv operation to complete"


@pytest.mark.parametrize("waiting", [(3,), ()])
def test_victim_that_timed_out_and_hangs_in_its_exit_is_not_named_beside_the_culprit(
    waiting: tuple[int, ...],
):
    """It waited for the one that sleeps; whether others still wait for both makes no difference."""
    builder = build(4)
    for rank in waiting:
        builder.enters(rank, "all_reduce")
    builder.does(2, "asleep")
    for rank in {0, 1, 3} - set(waiting):
        row = builder.does(rank, "exiting")
        row.look = replace(row.look, raised=Raised(TIMED_OUT, fatal=True))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))


def test_victim_whose_training_thread_timed_out_is_not_named_though_its_process_lives_on():
    """The main thread serves requests; the exception ended the thread that trained."""
    builder = build(2)
    builder.does(1, "asleep")
    row = builder.does(0, "queue")
    row.look = replace(row.look, raised=Raised(TIMED_OUT))

    assert judge(builder.snapshot()).culprit_ranks == (1,)


def test_victim_that_timed_out_is_named_where_there_is_nobody_else():
    """Then it is all that is known of why the others wait."""
    builder = build(2)
    builder.enters(0, "all_reduce")
    row = builder.does(1, "exiting")
    row.look = replace(row.look, raised=Raised(TIMED_OUT, fatal=True))

    assert judge(builder.snapshot()).culprit_ranks == (1,)


WAITS_FOR_A_SAVE = sighting(
    thread(
        f"wait {LIB}/threading.py:327",
        f"result {LIB}/concurrent/futures/_base.py:451",
        "wait_for_save /job/train.py:43",
        *TRAIN,
        **FUTEX,
    )
)
WRITES = sighting(thread("upload_shard /job/train.py:39", "write_data /job/train.py:33", **SLEEPS))


@pytest.mark.parametrize(
    ("writers", "named"),
    [
        ([in_call("gather"), WRITES, in_call("gather")], (1,)),
        ([WRITES, WRITES, in_call("gather")], (0, 1)),
        ([in_call("gather")] * 3, (0, 1, 2)),  # nobody is left for whom they could wait
        ([WRITES] * 3, (0, 1, 2)),
    ],
)
def test_of_ranks_that_wait_for_their_writers_those_are_named_whose_writer_is_waited_for(writers, named):
    """All stand at the same line; the processes that write their checkpoints meet in a group of their own."""
    builder = build(3)
    for rank, writer in enumerate(writers):
        builder.rows[rank] = Row(WAITS_FOR_A_SAVE, children=(writer,))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.PYTHON_LOCK, named)
    told = [
        line for line in verdict.evidence if line.startswith("child process of rank") and "upload" in line
    ]
    assert bool(told) == (0 < len(named) < 3)
