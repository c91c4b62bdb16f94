"""TensorFlow jobs are judged: who, why and where, and undecided where Python cannot tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddetect.correlate.judge import judge, wants_native
from ddetect.correlate.motion import moved
from ddetect.frameworks.tensorflow.deaths import saw_a_death, tells_of_a_peer
from ddetect.model import Cause, Departure, Frame, Gone, Phase, Proof, Raised, Role, Status, Thread, Verdict
from ddetect.model.tables import keep_rows
from ddetect.report.json_ import verdict_json
from tests.unit.frameworks.tf_scenes import (
    ALL_REPLICAS,
    ASLEEP,
    BLOCKED,
    EAGER_REDUCE,
    FUTEX,
    GENERATOR,
    JOINING,
    LIB,
    LOOP,
    MERGES,
    NEXT,
    PY_FUNCTION,
    REDUCES,
    SITE,
    SLEEPS,
    STARVED,
    STEP,
    TF,
    TRACING,
    TURN,
    Job,
    Member,
    below,
    elsewhere,
    in_step,
    thread,
)


def said(job: Job) -> Verdict:
    return judge(job.snapshot())


def named(verdict: Verdict) -> tuple[Cause | None, tuple[int, ...]]:
    return verdict.cause, verdict.culprit_ranks


# ---------------------------------------------------------------- several workers


def test_worker_that_has_not_begun_the_step_is_named():
    """Its number is behind; the others wait for it, in words without numbers."""
    verdict = said(Job([in_step(), elsewhere(ASLEEP), in_step()]))

    assert named(verdict) == (Cause.USER_CODE, (1,))
    assert verdict.summary == (
        "rank 1 sleeps in train.py:71 ask_feature_store; ranks 0,2 wait for it in a collective of the step"
    )


@pytest.mark.parametrize("python", [GENERATOR, PY_FUNCTION], ids=["generator", "py_function"])
def test_worker_whose_data_is_made_in_python_is_named(python):
    """All have the same number: the thread that the graph called tells who has not entered."""
    verdict = said(Job([in_step(), in_step(python), in_step()]))

    assert named(verdict) == (Cause.DATA_LOADING, (1,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.file == "data.py"


def test_filling_a_buffer_is_no_fault_while_somebody_has_not_begun():
    """A generator at work in a rank that waits for another one is no culprit."""
    verdict = said(Job([in_step(GENERATOR), elsewhere(ASLEEP), in_step()]))

    assert named(verdict) == (Cause.USER_CODE, (1,))


def test_python_function_of_the_step_is_user_code():
    """The page says that the step called it, no pipeline."""
    part = replace(PY_FUNCTION, phase=int(Phase.OTHER))
    verdict = said(Job([in_step(), in_step(part), in_step()]))

    assert named(verdict) == (Cause.USER_CODE, (1,))


def test_same_numbers_and_same_stacks_are_undecided():
    """A C++ source that starves in the step looks like the wait for others: nobody is named, all are left open."""
    verdict = said(Job([in_step(), in_step(), in_step()]))

    assert (verdict.status, verdict.cause, verdict.culprits) == (Status.UNDECIDED, None, ())
    assert verdict.left_open is not None
    assert verdict.left_open.members == (0, 1, 2)
    assert verdict.left_open.causes == (Cause.DATA_LOADING, Cause.ALL_ENTERED_NONE_LEFT)
    assert verdict.summary == (
        "ranks 0-2 are all inside a step at train.py:118 <module> that does not end: one of them waits for its data, "
        "or all wait below Python, and nothing tells them apart"
    )


def test_open_members_are_in_the_contract():
    """verdict.json says who is left open, and between what."""
    from ddetect.model import Incident, Stage

    verdict = said(Job([in_step(), in_step()]))
    incident = Incident(1, Stage.SUSPECTED, verdict, "job", 0, 2, 9.0, 0, 0)

    assert verdict_json(incident)["open"] == {
        "members": "0-1",
        "causes": ["data_loading", "all_entered_none_left"],
    }


def test_several_workers_are_never_asked_for_native_stacks():
    """The pause would make the job kill itself."""
    assert wants_native(Job([in_step(), in_step()]).snapshot()) == ()


def test_eager_wait_for_data_is_told_from_the_reduction_of_the_others():
    """`for batch in distributed`: one worker's iterator starves, the others reduce how many have data."""
    others = Member((EAGER_REDUCE,), Phase.COLLECTIVE, 152, 152)
    verdict = said(Job([others, Member((NEXT,), Phase.DATA, 151), others]))

    assert named(verdict) == (Cause.DATA_LOADING, (1,))
    assert verdict.waiting[0].on == "all_reduce"


def test_line_of_a_generator_is_named_though_the_loop_waits_eagerly():
    """The loop stands in `next()`; what it waits for is a thread of Python's."""
    others = Member((EAGER_REDUCE,), Phase.COLLECTIVE, 152, 152)
    verdict = said(Job([others, Member((NEXT, GENERATOR), Phase.DATA, 151), others]))

    assert named(verdict) == (Cause.DATA_LOADING, (1,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.function == "read_shard"


def test_tracing_worker_builds():
    """It traces again while the others wait: its line is the caller's, not one of the generated file."""
    verdict = said(Job([in_step(), elsewhere(TRACING, phase=Phase.TRACING), in_step()]))

    assert named(verdict) == (Cause.BUILDING, (1,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.line == 118


def test_step_of_its_own_is_named_without_a_cause():
    """A graph without collectives: the others wait for it, and what it waits for is not known."""
    verdict = said(Job([in_step(), Member((STEP,), Phase.STEP), in_step()]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.UNDECIDED, None, (1,))


def test_stopped_worker_inside_the_step_is_named():
    """It took its numbers and was stopped then."""
    stopped = replace(in_step(), threads=(replace(STEP, state="T"),), state="T")
    verdict = said(Job([in_step(), stopped, in_step()]))

    assert named(verdict) == (Cause.PROCESS_STOPPED, (1,))


def test_worker_that_holds_the_gil_is_named():
    """A numpy_function in C: no other Python of the process runs."""
    holder = thread(
        "crunch /job/data.py:50", *(f"{f.function} {f.file}:{f.line}" for f in PY_FUNCTION.stack[1:]), main=False,
        owns_gil=True, **SLEEPS,
    )  # fmt: skip
    verdict = said(Job([in_step(), replace(in_step(holder), tick_age_s=9.0), in_step()]))

    assert named(verdict) == (Cause.GIL_HELD, (1,))


def test_worker_that_raised_in_the_step_and_stays_is_named():
    """It has left the step whose numbers it took; Python is gone from its main thread, and the process is not."""
    stays = Member(
        (Thread("MainThread", True, False, False, (), **{"state": "S", **FUTEX}),), Phase.EXITING, 130
    )
    verdict = said(Job([in_step(), stays, in_step()]))

    assert named(verdict) == (Cause.LEFT_EARLY, (1,))


def test_worker_that_ended_in_peace_left_early():
    """TensorFlow says *unhealthy* of it some seconds later; that is no cause."""
    ended = Gone(1, Role.RANK, -1, 4001, Departure.EXITED, 20.0)
    verdict = said(Job([in_step(), Member(), in_step()], gone=(ended,)))

    assert named(verdict) == (Cause.LEFT_EARLY, (1,))


@pytest.mark.parametrize(("age_s", "status"), [(40.0, Status.HEALTHY), (100.0, Status.HANG)])
def test_end_of_a_process_takes_its_time(age_s: float, status: Status):
    """The last ones free their pipelines, for which TensorFlow takes up to a minute; nobody waits for them."""
    gone = Gone(0, Role.RANK, -1, 4000, Departure.EXITED, 50.0)
    leaves = Member((Thread("MainThread", True, False, False, (), state="S"),), Phase.EXITING)
    snapshot = Job([Member(), leaves], gone=(gone,), numbers=False).snapshot()
    aged = replace(snapshot, beats=replace(snapshot.beats, phase_age_s=[age_s]))

    assert judge(aged).status is status


def test_worker_that_never_came_is_named_where_all_should_be_here():
    """The others stand in the start-up barrier."""
    joining = Member((JOINING,), Phase.JOINING, 0)
    job = Job([joining, joining], numbers=False, world=3)
    snapshot = job.snapshot()
    verdict = judge(replace(snapshot, roster=replace(snapshot.roster, local_world=[3, 3])))

    assert named(verdict) == (Cause.RENDEZVOUS, (2,))


def test_generator_that_makes_the_next_batch_is_no_fault():
    """The loop takes its batches in Python: the step has its own already."""
    snapshot = Job([in_step(), in_step(GENERATOR), in_step()]).snapshot()
    fed = replace(snapshot, beats=replace(snapshot.beats, batch=[6, 6, 6], step=[5, 5, 5]))

    verdict = judge(fed)
    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert verdict.left_open is not None
    assert verdict.left_open.members == (0, 1, 2)


@pytest.mark.parametrize("numbers", [True, False])
def test_evaluator_is_missed_by_nobody(numbers: bool):
    """It looks for checkpoints; the others wait for each other, and for nobody else."""
    job = Job([in_step(), in_step(), Member((ASLEEP,), Phase.OTHER, 0)], numbers=numbers, pages=numbers)
    snapshot = job.snapshot()
    names = replace(snapshot.roster, task=[-1, -1, 0], tasks=("evaluator 0",))
    comms = snapshot.comms
    if numbers:
        groups = (replace(comms.groups[0], members=(0, 1)),)
        progress = keep_rows(comms.progress, comms.progress.rank < 2)
        comms = replace(comms, groups=groups, progress=progress)
    looks = tuple(replace(look, comms=comms) for look in snapshot.looks)

    verdict = judge(replace(snapshot, roster=names, looks=looks))
    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert verdict.left_open is not None
    assert verdict.left_open.members == (0, 1)


def test_worker_that_is_through_is_not_waited_for():
    """It has left the step, and goes on: who is still inside waits for nobody."""
    through = Member((ASLEEP,), Phase.OTHER, 130)

    assert said(Job([in_step(), through, through])).culprit_ranks != (1, 2)


# ---------------------------------------------------------------- without a probe


def test_stacks_alone_name_who_is_outside_the_step():
    """Attached: no numbers, and yet two in a step wait for the one that is not."""
    members = [Member((STEP,)), Member((ASLEEP,)), Member((STEP,))]
    verdict = said(Job(members, numbers=False, pages=False))

    assert named(verdict) == (Cause.USER_CODE, (1,))


def test_stacks_alone_name_who_waits_for_a_lock():
    """Without a native stack: in TensorFlow no wait for others is a bare line of the user's."""
    locked = thread("log_metrics /job/train.py:67", LOOP, **FUTEX)
    verdict = said(Job([Member((STEP,)), Member((locked,))], numbers=False, pages=False))

    assert named(verdict) == (Cause.PYTHON_LOCK, (1,))


def test_stacks_alone_name_who_makes_its_data():
    """The generator's thread speaks for its worker."""
    members = [Member((STEP,)), Member((STEP, GENERATOR)), Member((STEP,))]
    verdict = said(Job(members, numbers=False, pages=False))

    assert named(verdict) == (Cause.DATA_LOADING, (1,))


def test_stacks_alone_are_undecided_where_all_are_in_the_step():
    """As with numbers: nobody is named."""
    verdict = said(Job([Member((STEP,))] * 3, numbers=False, pages=False))

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert verdict.left_open is not None
    assert verdict.left_open.members == (0, 1, 2)


# ---------------------------------------------------------------- replicas


def replicas(*threads, main=ALL_REPLICAS) -> Job:
    """One process, a lane for each of these stacks; the main thread waits for all of them."""
    lanes = [
        Member((thread(*stack, main=False, name=f"Thread-{n}", lane=n, **how),), phase)
        for n, (stack, how, phase) in enumerate(threads)
    ]
    lanes[0] = replace(lanes[0], threads=(*lanes[0].threads, main))
    return Job(lanes, lanes=True)


def test_blocked_replica_is_named():
    """The one in user code, not those that wait for it or for their turn."""
    job = replicas(
        (MERGES, FUTEX, Phase.COLLECTIVE), (BLOCKED, SLEEPS, Phase.OTHER), (TURN, FUTEX, Phase.COLLECTIVE)
    )
    verdict = said(job)

    assert named(verdict) == (Cause.USER_CODE, (0,))
    assert [culprit.lane for culprit in verdict.culprits] == [1]
    assert (
        verdict.summary == "replica 1 sleeps in train.py:11 augment; replicas 0,2 wait for it in merge_call"
    )


def test_blocked_replica_speaks_for_a_process_without_a_page():
    """Attached, there are no lanes: the thread of the replica that others wait for tells."""
    threads = tuple(
        thread(*stack, main=False, name=f"Thread-{n}", **how)
        for n, (stack, how) in enumerate(((MERGES, FUTEX), (BLOCKED, SLEEPS), (TURN, FUTEX)))
    )
    verdict = said(Job([Member((ALL_REPLICAS, *threads))], numbers=False, pages=False))

    assert named(verdict) == (Cause.USER_CODE, (0,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.line == 11


def test_compiled_step_asks_for_a_native_stack():
    """One process may be paused: its other threads tell what the step waits for."""
    assert wants_native(Job([in_step()]).snapshot()) == (4000,)


def test_compiled_step_that_starves_loads_data():
    """The thread that fills the step's buffer stands in its source."""
    verdict = said(Job([in_step(below(*STARVED))]))

    assert named(verdict) == (Cause.DATA_LOADING, (0,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.line == 118


def test_reduction_below_python_comes_before_a_pipeline_at_work():
    """Prefetching goes on while replicas reduce: that is no starvation."""
    verdict = said(Job([in_step(below(*STARVED), below(*REDUCES))]))

    assert verdict.cause is not Cause.DATA_LOADING


def test_native_look_is_kept_by_the_plain_ones_after_it():
    """The next look has no native stack: at the same place, the one before still tells."""
    before, after = (Job([member]).snapshot() for member in (in_step(below(*STARVED)), in_step()))
    verdict = judge(replace(before, looks=(*before.looks[:2], after.looks[0])))

    assert verdict.cause is Cause.DATA_LOADING


def test_step_that_computes_does_not_starve():
    """A long loop inside the graph: its pipeline is met in its source, and the process uses its CPU all the time."""
    snapshot = Job([in_step(below(*STARVED))]).snapshot()
    looks = tuple(
        replace(look, sample=replace(look.sample, cpu_s=[float(number)]))
        for number, look in enumerate(snapshot.looks)
    )
    busy = replace(snapshot, looks=looks)

    assert (judge(busy).status, judge(busy).culprits) == (Status.UNDECIDED, ())
    assert moved(busy, (0,)).runs
    assert not moved(snapshot, (0,))


def test_pipeline_thread_that_runs_does_not_wait():
    """It is met inside its source, computing."""
    runs = replace(below(*STARVED), state="R", wchan="", syscall="")

    assert said(Job([in_step(runs)])).cause is None


def test_line_of_a_pool_that_makes_batches_is_named():
    """Keras' PyDataset: the generator waits for a pool, and a thread of that is at the user's line."""
    adapter = f"{SITE}/keras/src/trainers/data_adapters/py_dataset_adapter.py"
    waits = thread(
        f"get {LIB}/multiprocessing/pool.py:768", f"get {adapter}:667",
        f"generator_py_func {TF}/data/ops/from_generator_op.py:198", f"__call__ {TF}/ops/script_ops.py:269",
        main=False, name="", **FUTEX,
    )  # fmt: skip
    makes = thread(
        "__getitem__ /job/data.py:7", f"get_index {adapter}:700", f"worker {LIB}/multiprocessing/pool.py:125",
        main=False, name="Thread-9", **SLEEPS,
    )  # fmt: skip
    verdict = said(Job([in_step(waits, makes)]))

    assert named(verdict) == (Cause.DATA_LOADING, (0,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.line == 7


def test_compiled_step_without_a_native_stack_is_undecided():
    """It says that replicas cannot be told apart."""
    verdict = said(Job([in_step()]))

    assert verdict.status is Status.UNDECIDED
    assert "its replicas, if it has several, cannot be told apart" in verdict.summary


# ---------------------------------------------------------------- deaths

UNHEALTHY = (
    "UnavailableError: Graph execution error: Collective ops is aborted by: Error reported from /job:worker/task:1: "
    "The following tasks are unhealthy (stopped sending heartbeats)"
)
MISMATCH = (
    "InternalError: Collective instance 128 expected type 0 and data_type 9 but got type 0 and data_type 1"
)


def test_heartbeats_of_a_peer_are_a_consequence():
    """The peer is dead, stopped or gone: it is not this task's fault."""
    assert tells_of_a_peer(UNHEALTHY)
    assert saw_a_death(UNHEALTHY)


@pytest.mark.parametrize(
    "error",
    [
        MISMATCH,
        "ValueError: corrupt record",
        "UnavailableError: gs://bucket/shard: Connection reset by peer",
        "RuntimeError: no shard: {{function_node __wrapped__ReadFile_device_/job:worker/replica:0/task:0/device:CPU:0}}"
        " Connection reset by peer",
        "ValueError: inconsistent shapes of two batches",
        "ResourceExhaustedError: OOM when allocating tensor",
    ],
)
def test_own_fault_is_no_consequence(error):
    """A mismatch, a bad record, a bucket that hangs up, memory: the task's own."""
    assert not tells_of_a_peer(error)


def test_workers_that_called_different_collectives_are_told_apart_by_their_lines():
    """TensorFlow ends all of them with one error; the line that one of them was at says who."""
    lines = [Frame("train", "/job/train.py", 140), Frame("share_metrics", "/job/train.py", 12)]
    words = [MISMATCH, MISMATCH, UNHEALTHY]  # the last one dies of the others' death, at its own line
    dead = tuple(
        Gone(
            rank, Role.RANK, -1, 4000 + rank, Departure.RAISED, 5.0 - rank / 10, words[rank], lines[rank == 1]
        )
        for rank in range(3)
    )
    verdict = said(Job([Member()] * 3, gone=dead, numbers=False))

    assert named(verdict) == (Cause.COLLECTIVE_MISMATCH, (1,))
    assert verdict.summary == (
        "ranks called collectives that do not fit: rank 1 was in train.py:12 share_metrics; ranks 0,2 were in "
        f"train.py:140 train; refused with {MISMATCH}"
    )


def test_refused_call_of_one_line_names_nobody():
    """All died of it at the same line, or the others have not raised yet: who was first means nothing."""
    dead = (
        Gone(0, Role.RANK, -1, 4000, Departure.RAISED, 5.0, MISMATCH, Frame("train", "/job/train.py", 140)),
    )
    verdict = said(Job([Member()] * 3, gone=dead, numbers=False))

    assert named(verdict) == (Cause.COLLECTIVE_MISMATCH, ())
    assert verdict.proof is Proof.TIME


def test_refused_call_is_told_by_who_still_waits_in_it():
    """Of two workers one has died of it; the other stands in its own call, and both are named."""
    dead = (
        Gone(0, Role.RANK, -1, 4000, Departure.RAISED, 5.0, MISMATCH, Frame("train", "/job/train.py", 140)),
    )
    verdict = said(Job([Member(), Member((EAGER_REDUCE,), Phase.COLLECTIVE, 130, 128)], gone=dead))

    assert named(verdict) == (Cause.COLLECTIVE_MISMATCH, (0, 1))


def test_refused_call_is_told_by_those_on_their_way_out_too():
    """One has died, two are still in their exit handlers: what they raised is in their pages."""
    lines = [Frame("train", "/job/train.py", 140), Frame("share_metrics", "/job/train.py", 12)]
    dead = (Gone(0, Role.RANK, -1, 4000, Departure.RAISED, 5.0, MISMATCH, lines[0]),)
    job = Job(
        [Member(), Member((ASLEEP,), Phase.EXITING), Member((ASLEEP,), Phase.EXITING)],
        gone=dead,
        numbers=False,
    )
    snapshot = job.snapshot()
    (look, *_), raised = snapshot.looks, [Raised(MISMATCH, lines[rank == 1], fatal=True) for rank in (1, 2)]
    sightings = tuple(
        replace(one, raised=word) for one, word in zip(look.sample.sightings, raised, strict=True)
    )
    told = replace(look, sample=replace(look.sample, sightings=sightings))

    assert named(judge(replace(snapshot, looks=(told,)))) == (Cause.COLLECTIVE_MISMATCH, (1,))


def test_first_death_is_named_beside_the_abort_of_the_others():
    """Killed; the others read of missing heartbeats six seconds later."""
    killed = Gone(1, Role.RANK, -1, 4001, Departure.VANISHED, 20.0, signal=9)
    aborted = Gone(0, Role.RANK, -1, 4000, Departure.RAISED, 14.0, UNHEALTHY)
    verdict = said(Job([Member(), Member()], gone=(killed, aborted), numbers=False))

    assert named(verdict) == (Cause.KILLED_BY_SIGNAL, (1,))
