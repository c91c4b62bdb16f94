"""A job without probe and recorder: what stacks and the arguments of calls tell, and how surely."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge, wants_native
from ddetect.model import (
    UNKNOWN,
    UNSEEN_ERROR,
    CallSpec,
    Cause,
    Departure,
    Gone,
    Group,
    OpenP2P,
    Ops,
    OpState,
    P2PKind,
    Progress,
    Proof,
    Role,
    Snapshot,
    Status,
)
from ddetect.wire.file import read_snapshot, write_snapshot
from tests.unit.correlate.scenes import (
    FUTEX,
    SITE,
    SLEEPS,
    TRAIN,
    Row,
    build,
    died,
    in_call,
    scene,
    sighting,
    thread,
    without_page,
)
from tests.unit.snapshots import changed

BACKWARD = (
    f"_engine_run_backward {SITE}/torch/autograd/graph.py:865",
    f"backward {SITE}/torch/_tensor.py:625",
)
IN_BACKWARD = sighting(thread(*BACKWARD, *TRAIN, **FUTEX))
COMPUTES = sighting(thread(*BACKWARD, *TRAIN, state="R", active=True), state="R")
AT_EXIT = sighting(thread("upload_logs /job/train.py:14", **SLEEPS))


def bare(
    looks: dict[int, object],
    calls: dict[int, CallSpec] | None = None,
    own_group: tuple[int, ...] = (),
    p2p: list[tuple[int, P2PKind, int]] | None = None,
) -> Snapshot:
    """A job of which there is nothing but looks, and what their local variables say."""
    builder = build(len(looks))
    builder.rows = {rank: Row(look, UNKNOWN, tick_age_s=np.inf) for rank, look in looks.items()}  # type: ignore[arg-type]
    calls, p2p = calls or {}, p2p or []
    signatures = list(dict.fromkeys(calls.values()))
    return builder.snapshot(
        progress=Progress(),
        groups=(Group("", "0", "default_pg"),),
        calls=tuple(signatures),
        ops=Ops(
            rank=list(calls), group=[UNKNOWN if rank in own_group else 0 for rank in calls],
            seq=[UNKNOWN] * len(calls), call=[signatures.index(call) for call in calls.values()],
            state=[OpState.ENQUEUED] * len(calls), frame=[UNKNOWN] * len(calls),
        ),
        p2p=OpenP2P(
            rank=[row[0] for row in p2p], kind=[row[1] for row in p2p], peer=[row[2] for row in p2p],
            tag=[0] * len(p2p), group=[0] * len(p2p), waiting=[1] * len(p2p), age_s=[0.0] * len(p2p),
        ),
    )  # fmt: skip


def called(ops: dict[int, str], **more: object) -> Snapshot:
    looks = {rank: in_call(op.partition(" ")[0]) for rank, op in ops.items()}
    calls = {
        rank: CallSpec(op.partition(" ")[0], root=int(op.partition(" ")[2] or UNKNOWN))
        for rank, op in ops.items()
    }
    return bare(looks, calls, **more)  # type: ignore[arg-type]


def said(snapshot: Snapshot) -> tuple[Status, Cause | None, tuple[int, ...]]:
    verdict = judge(snapshot)
    return verdict.status, verdict.cause, verdict.culprit_ranks


SLEEPER = sighting(thread("ask_store /job/train.py:9", *TRAIN, **SLEEPS))


def test_ranks_idle_in_backward_wait_for_the_one_that_is_elsewhere():
    """DDP's all-reduce is in no Python frame; asleep in backward, in every look, is waiting."""
    stuck = bare({0: IN_BACKWARD, 1: IN_BACKWARD, 2: SLEEPER})

    verdict = judge(stuck)

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))
    assert verdict.waiting[0].ranks == (0, 1)
    assert verdict.confidence < 0.6


def test_native_stack_in_the_reducer_makes_it_surer():
    """One rank of the class is enough."""
    proven = sighting(
        thread(*BACKWARD, *TRAIN, **FUTEX, native=("futex_wait", "c10d::Reducer::finalize_backward()"))
    )
    weak = judge(bare({0: IN_BACKWARD, 1: IN_BACKWARD, 2: SLEEPER}))

    strong = judge(bare({0: proven, 1: IN_BACKWARD, 2: SLEEPER}))

    assert strong.culprit_ranks == weak.culprit_ranks == (2,)
    assert strong.confidence > weak.confidence


def test_native_stack_is_asked_of_one_rank_only():
    """It costs that rank some tenths of a second; once told, nobody is asked again."""
    proven = sighting(thread(*BACKWARD, *TRAIN, **FUTEX, native=("c10d::Reducer::finalize_backward()",)))

    assert wants_native(bare({0: IN_BACKWARD, 1: IN_BACKWARD, 2: SLEEPER})) == (4000,)
    assert wants_native(bare({0: proven, 1: IN_BACKWARD, 2: SLEEPER})) == ()


def test_rank_that_computes_in_backward_is_neither_waiting_nor_accused():
    """Busy is not idle: it may still be on its way."""
    verdict = judge(bare({0: COMPUTES, 1: IN_BACKWARD, 2: SLEEPER}))

    assert verdict.culprit_ranks == (2,)
    assert all(0 not in item.ranks for item in verdict.waiting)


def test_rank_that_was_elsewhere_in_one_look_does_not_wait_in_backward():
    """Between two looks it came from somewhere: it works."""
    once = bare({0: SLEEPER, 1: SLEEPER, 2: SLEEPER}).samples[0]
    later = bare({0: IN_BACKWARD, 1: IN_BACKWARD, 2: SLEEPER})

    verdict = judge(changed(later, samples=(once, *later.samples)))

    assert not verdict.waiting


def test_different_operations_in_the_default_group_name_the_fewer():
    """barrier and all_reduce in one group never meet."""
    snapshot = called({0: "all_reduce", 1: "barrier", 2: "all_reduce", 3: "all_reduce"})

    verdict = judge(snapshot)

    assert said(snapshot) == (Status.HANG, Cause.COLLECTIVE_MISMATCH, (1,))
    assert verdict.proof is Proof.TIME  # a slow transfer that some have left looks the same for a while
    assert verdict.confidence < 0.8


def test_backward_against_an_explicit_collective_is_a_mismatch():
    """An `if` around a barrier while the others are in DDP's all-reduce."""
    snapshot = bare({0: IN_BACKWARD, 1: in_call("barrier"), 2: IN_BACKWARD}, {1: CallSpec("barrier")})

    assert said(snapshot) == (Status.HANG, Cause.COLLECTIVE_MISMATCH, (1,))


def test_different_roots_name_the_side_whose_root_is_still_in_it():
    """Rank 2 has sent to those who believed in it, and has gone on with them."""
    snapshot = called({0: "all_reduce", 1: "broadcast 1", 2: "all_reduce", 3: "broadcast 2"})

    assert said(snapshot) == (Status.HANG, Cause.COLLECTIVE_MISMATCH, (1,))


def test_different_roots_of_equally_many_name_both():
    """Of two that disagree neither is the minority."""
    assert said(called({0: "broadcast 0", 1: "broadcast 1"}))[2] == (0, 1)


def test_same_operation_from_different_lines_names_the_fewer():
    """The others have gone past that line, so what they exchange is not the same; less sure than another operation."""
    other = sighting(thread(*_frames("all_reduce"), "reduce_gradients /job/train.py:18", TRAIN[1], **FUTEX))
    looks = {0: in_call("all_reduce"), 1: other, 2: in_call("all_reduce")}
    snapshot = bare(looks, dict.fromkeys(looks, CallSpec("all_reduce")))

    assert said(snapshot) == (Status.HANG, Cause.COLLECTIVE_MISMATCH, (1,))
    assert (
        judge(snapshot).confidence
        < judge(called({0: "all_reduce", 1: "barrier", 2: "all_reduce"})).confidence
    )


def _frames(op: str) -> tuple[str, ...]:
    return (f"{op} {SITE}/torch/distributed/distributed_c10d.py:2810",)


def test_ranks_in_groups_of_their_own_are_named_before_those_that_wait_for_them():
    """Which groups they are in no stack tells: half as sure."""
    snapshot = called(dict.fromkeys(range(4), "all_reduce"), own_group=(1, 2))

    verdict = judge(snapshot)

    assert said(snapshot) == (Status.HANG, Cause.GROUP_ORDER_DEADLOCK, (1, 2))
    assert (verdict.proof, verdict.confidence < 0.5) == (Proof.TIME, True)


def test_everyone_in_a_group_of_its_own_is_undecided():
    """Nobody is told from the others."""
    assert (
        judge(called(dict.fromkeys(range(3), "all_reduce"), own_group=(0, 1, 2))).status is Status.UNDECIDED
    )


def test_everyone_in_the_same_call_points_below_python():
    """Or to shapes, which no stack shows: the evidence says so, and nobody is named."""
    verdict = judge(called(dict.fromkeys(range(3), "all_reduce")))

    assert (verdict.cause, verdict.culprits) == (Cause.ALL_ENTERED_NONE_LEFT, ())
    assert verdict.confidence < 0.4
    assert any("shapes" in line for line in verdict.evidence)


def test_everyone_idle_in_backward_is_undecided_until_the_reducer_is_seen():
    """With a GPU the main thread sleeps through every backward pass: that is no hang."""
    proven = sighting(thread(*BACKWARD, *TRAIN, **FUTEX, native=("c10d::Reducer::finalize_backward()",)))

    assert judge(bare({0: IN_BACKWARD, 1: IN_BACKWARD})).status is Status.UNDECIDED
    assert said(bare({0: proven, 1: IN_BACKWARD}))[1] is Cause.ALL_ENTERED_NONE_LEFT


def test_rank_that_is_elsewhere_is_named_whatever_calls_the_others_are_in():
    """Who is in no call at all comes before those that disagree."""
    snapshot = called({0: "all_reduce", 1: "barrier", 2: "all_reduce"})
    samples = bare({0: in_call("all_reduce"), 1: in_call("barrier"), 2: SLEEPER}).samples

    assert said(changed(snapshot, samples=samples))[2] == (2,)


def test_two_ranks_that_receive_from_each_other_are_a_deadlock():
    """The arguments of recv give the edge; only time proves it."""
    looks = {0: in_call("all_reduce"), 1: in_call("recv"), 2: in_call("recv")}
    snapshot = bare(looks, {0: CallSpec("all_reduce")}, p2p=[(1, P2PKind.RECV, 2), (2, P2PKind.RECV, 1)])

    assert said(snapshot) == (Status.HANG, Cause.P2P_DEADLOCK, (1, 2))
    assert judge(snapshot).proof is Proof.TIME


def test_receiver_waits_for_the_rank_that_its_argument_names():
    """A chain ends at the one who waits for nobody."""
    looks = {0: in_call("recv"), 1: in_call("recv"), 2: SLEEPER}
    snapshot = bare(looks, p2p=[(0, P2PKind.RECV, 1), (1, P2PKind.RECV, 2)])

    assert said(snapshot) == (Status.HANG, Cause.USER_CODE, (2,))


def test_rank_whose_program_has_ended_is_leaving():
    """Under an exit handler there is no module any more, while the others still have theirs."""
    assert said(bare({0: IN_BACKWARD, 1: AT_EXIT, 2: IN_BACKWARD})) == (Status.HANG, Cause.LEFT_EARLY, (1,))


def test_embedded_programs_without_a_module_are_not_all_leaving():
    """Where no rank has a module frame, its absence says nothing."""
    waiting = sighting(thread(*BACKWARD, "step /job/train.py:3", **FUTEX))

    assert said(bare({0: waiting, 1: AT_EXIT, 2: waiting}))[1] is Cause.USER_CODE


def _worker(signal: int, age_s: float) -> Gone:
    return Gone(1, Role.LOADER_WORKER, UNKNOWN, 4011, Departure.VANISHED, age_s, signal=signal)


def test_killed_loader_worker_comes_before_the_error_of_its_rank():
    """Nobody saw the exception, only exit code 1; a worker killed before it is the first fault."""
    rank = died(1, Departure.RAISED, age_s=4.0, exception=f"{UNSEEN_ERROR} (exit code 1)")
    snapshot = replace(bare({0: IN_BACKWARD, 2: IN_BACKWARD}), world_size=3, gone=(rank, _worker(9, 4.2)))

    assert said(snapshot) == (Status.STOPPED, Cause.KILLED_BY_SIGNAL, (1,))


@pytest.mark.parametrize(("signal", "age_s"), [(15, 4.2), (9, 3.0)])
def test_loader_worker_that_its_rank_ended_is_no_fault(signal, age_s):
    """SIGTERM is how a rank ends its workers, and who dies after it is no cause."""
    rank = died(1, Departure.RAISED, age_s=4.0, exception=f"{UNSEEN_ERROR} (exit code 1)")
    snapshot = replace(
        bare({0: IN_BACKWARD, 2: IN_BACKWARD}), world_size=3, gone=(rank, _worker(signal, age_s))
    )

    assert said(snapshot)[1] is Cause.PYTHON_EXCEPTION


@pytest.mark.parametrize("seed", range(5))
def test_permuting_ranks_permutes_the_verdict(seed):
    """No rank is the norm."""
    ops = ["all_reduce", "barrier", "all_reduce", "all_reduce"]
    order = list(range(4))
    random.Random(seed).shuffle(order)

    verdict = said(called({new: ops[old] for new, old in sorted(zip(order, range(4), strict=True))}))

    assert verdict[2] == (order[1],)


def test_recorders_speak_before_stacks():
    """Where one was read, calls are compared by their sequence numbers and not by their lines."""
    snapshot = scene(all_reduce=[0, 1, 2])
    for rank in range(3):
        snapshot = without_page(snapshot, rank)

    assert "default group" not in judge(snapshot).summary


def test_snapshot_read_again_gives_the_same_verdict(tmp_path):
    """Calls in groups that no stack shows survive the file."""
    snapshot = called(dict.fromkeys(range(4), "all_reduce"), own_group=(1, 2))
    write_snapshot(tmp_path / "one.ddsnap", snapshot)

    assert judge(read_snapshot(tmp_path / "one.ddsnap")) == judge(snapshot)
