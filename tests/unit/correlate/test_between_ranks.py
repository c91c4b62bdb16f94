"""Mismatches, circles, and operations that everyone entered: nobody is asleep, and yet nobody moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge
from ddetect.model import (
    CallSpec,
    Cause,
    Frame,
    Group,
    Ops,
    OpState,
    P2PKind,
    Phase,
    Proof,
    Snapshot,
    Status,
)
from tests.unit.correlate.scenes import DOINGS, Row, build, in_call, scene, without_progress
from tests.unit.snapshots import changed

PLAIN = CallSpec("all_reduce", "[[16, 4]]", "[Float]", "[[16, 4]]", "[Float]", reduce_op="SUM")


def disagreeing(*signatures: CallSpec) -> Snapshot:
    builder = build(len(signatures))
    for rank, signature in enumerate(signatures):
        builder.enters(rank, signature.op, signature=signature)
    return builder.snapshot()


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (CallSpec("barrier"), "op"),
        (CallSpec("broadcast", "[[16, 4]]", "[Float]", root=0), "op"),
        (replace(PLAIN, in_sizes="[[17, 4]]", out_sizes="[[17, 4]]"), "shape"),
        (replace(PLAIN, in_dtypes="[Half]", out_dtypes="[Half]"), "dtype"),
        (replace(PLAIN, reduce_op="MAX"), "reduce op"),
    ],
)
@pytest.mark.parametrize("odd", [0, 2])
def test_the_rank_with_the_other_call_is_named_and_both_sides_are_shown(odd, other, word):
    """The fewer are named, whatever their numbers; what both sides called is in the summary."""
    calls = [PLAIN] * 4
    calls[odd] = other

    verdict = judge(disagreeing(*calls))

    assert (verdict.status, verdict.cause, verdict.proof) == (
        Status.HANG,
        Cause.COLLECTIVE_MISMATCH,
        Proof.STRUCTURAL,
    )
    assert verdict.culprit_ranks == (odd,)
    assert f"disagree on the {word} of #412" in verdict.summary
    assert verdict.summary.count(" called ") == 2


def test_other_root_is_a_mismatch():
    """A broadcast from two roots: the rank that believes in its own is named."""
    leaf = CallSpec("broadcast", "[[8]]", "[Float]", root=1)

    verdict = judge(disagreeing(leaf, leaf, leaf, replace(leaf, root=3)))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.COLLECTIVE_MISMATCH, (3,))
    assert "root" in verdict.summary


def test_tie_names_both_sides():
    """One against one: nobody is the norm."""
    assert judge(disagreeing(PLAIN, CallSpec("barrier"))).culprit_ranks == (0, 1)


def test_tie_with_an_unread_member_names_nobody():
    """The rank that could not be read would decide who the fewer are."""
    snapshot = disagreeing(PLAIN, PLAIN, CallSpec("barrier"))
    blind = without_progress(snapshot, 0)
    samples = tuple(
        replace(sample, rank=np.where(sample.rank == 0, 1, sample.rank)) for sample in blind.samples
    )
    beats = replace(blind.beats, has_page=np.where(blind.roster.rank == 0, 0, 1))

    verdict = judge(changed(blind, samples=samples, beats=beats))

    assert (verdict.cause, verdict.culprits) == (Cause.COLLECTIVE_MISMATCH, ())


def sized(*counts: int) -> Snapshot:
    """As many ranks as each count says call one shape, the next ones another."""
    return disagreeing(
        *(
            replace(PLAIN, in_sizes=f"[[{8 + side}]]")
            for side, count in enumerate(counts)
            for _ in range(count)
        )
    )


@pytest.mark.parametrize(
    ("counts", "unread", "named"),
    [
        ((2, 3), (), (0, 1)),
        ((2, 3), (3, 4), ()),  # one against two: the unread two decide
        ((2, 3), (4,), ()),
        ((3, 5), (4, 5, 6, 7), ()),
        ((1, 4), (4,), (0,)),
        ((1, 4), (3, 4), ()),  # one and two unread are more than the two that are left
        ((1, 3), (3,), (0,)),  # at worst two against two, and a tie names both
        ((4, 1), (0, 1, 2, 3), ()),
        ((1, 1, 3), (), (0, 1)),
        ((1, 2, 4), (6,), (0, 1, 2)),
        ((1, 2, 4), (5, 6), ()),
        ((1, 2, 5), (6, 7), (0,)),  # of three sides one is the fewer whatever the unread called
        ((2, 2, 1), (), (0, 1, 2, 3, 4)),
        ((2, 2, 1), (4,), ()),
    ],
)
def test_a_side_is_named_only_if_the_unread_could_not_make_it_the_most(counts, unread, named):
    """Less evidence names fewer or nobody, never the other side; both are shown as long as two are known."""
    snapshot = sized(*counts)
    for rank in unread:
        snapshot = without_progress(snapshot, rank)

    assert judge(snapshot).culprit_ranks == named


def test_untold_root_is_on_nobodys_side():
    """Pages tell roots: without those of ranks 3 and 4, one against two is no minority."""
    calls = [CallSpec("broadcast", "[[8]]", "[Float]", root=root) for root in (0, 0, 2, 2, 2)]
    full = judge(disagreeing(*calls))
    calls[3:] = [replace(calls[3], root=-1)] * 2

    verdict = judge(disagreeing(*calls))

    assert full.culprit_ranks == (0, 1)
    assert (verdict.cause, verdict.culprit_ranks) == (Cause.COLLECTIVE_MISMATCH, ())
    assert verdict.confidence < full.confidence


def test_another_shape_counts_also_where_somebody_calls_another_operation():
    """The one in a barrier and the one with another shape: who is unread does not decide which of them is named."""
    snapshot = disagreeing(PLAIN, PLAIN, PLAIN, replace(PLAIN, in_sizes="[[9]]"), CallSpec("barrier"))

    assert judge(snapshot).culprit_ranks == (3, 4)
    assert judge(without_progress(snapshot, 4)).culprit_ranks == (3,)


def test_unread_rank_may_be_a_member_of_a_group_whose_members_nobody_told():
    """Two against one in a group that was only seen: the unread ranks may be the second and the third."""
    builder = build(5, [Group("gloo", "7", "side")])
    for rank in range(5):
        size = 8 if rank < 2 else 9
        builder.enters(rank, "all_reduce", signature=replace(PLAIN, in_sizes=f"[[{size}]]"))
    snapshot = builder.snapshot()

    assert judge(snapshot).culprit_ranks == (0, 1)
    assert judge(without_progress(without_progress(snapshot, 3), 4)).culprit_ranks == ()


@pytest.mark.parametrize(
    "pair",
    [
        (
            CallSpec("all_gather", "[[3]]", "[Float]", "[[3], [5]]", "[Float]"),
            CallSpec("all_gather", "[[5]]", "[Float]", "[[3], [5]]", "[Float]"),
        ),
        (
            CallSpec("reduce_scatter", "[[3], [5]]", "[Float]", "[[3]]", "[Float]"),
            CallSpec("reduce_scatter", "[[3], [5]]", "[Float]", "[[5]]", "[Float]"),
        ),
        (
            CallSpec("all_to_all", "[[3]]", "[Float]", "[[9]]", "[Float]"),
            CallSpec("all_to_all", "[[7]]", "[Float]", "[[1]]", "[Float]"),
        ),
        (
            CallSpec("gather", "[[3]]", "[Float]", "[[3], [3]]", "[Float]", 0),
            CallSpec("gather", "[[3]]", "[Float]", "[[]]", "[]", 0),
        ),
        (
            CallSpec("scatter", "[[3], [3]]", "[Float]", "[[3]]", "[Float]", 0),
            CallSpec("scatter", "[[]]", "[]", "[[3]]", "[Float]", 0),
        ),
        (CallSpec("broadcast", "[[3]]", "[Float]", root=0), CallSpec("broadcast", "[[3]]", "[Float]")),
        (CallSpec("barrier", "[[1]]", "[Byte]"), CallSpec("barrier")),
        (PLAIN, replace(PLAIN, in_sizes="[[64]]", out_sizes="[[64]]")),
        (CallSpec("all_reduce", "[[4]]", "[Float]"), CallSpec("allreduce", "[[4]]", "[Float]")),
    ],
)
def test_differences_that_the_operation_allows_are_no_mismatch(pair):
    """Uneven gathers, lists that only a root has, unknown roots and equal element counts are not at fault."""
    assert judge(disagreeing(*pair)).cause is Cause.ALL_ENTERED_NONE_LEFT


def test_never_entered_comes_before_another_signature():
    """As long as somebody is missing, the mismatch of the others is not what holds them."""
    builder = build(4)
    builder.enters(0, "all_reduce")
    builder.enters(1, "all_reduce")
    builder.enters(2, "barrier", signature=CallSpec("barrier"))
    builder.does(3, "asleep")

    assert judge(builder.snapshot()).culprit_ranks == (3,)


def test_rank_that_left_a_mismatched_slot_is_still_named():
    """Gloo lets the odd root leave; it waits in the next operation, and the line is that of its odd call."""
    root = CallSpec("broadcast", "[[8]]", "[Float]", root=0)
    builder = build(4, seq=7)
    for rank in (0, 1, 2):
        builder.enters(rank, "broadcast", signature=root)
    builder.enters(3, "all_reduce", seq=8)
    builder.ops.append((3, 0, 7, replace(root, root=3), OpState.COMPLETED))
    snapshot = builder.snapshot(frames=(Frame("share", "/job/share.py", 3),))
    at_seven = (snapshot.comms.ops.rank == 3) & (snapshot.comms.ops.seq == 7)
    columns = {name: getattr(snapshot.comms.ops, name) for name in Ops.__dataclass_fields__}
    snapshot = changed(snapshot, ops=Ops(**{**columns, "frame": np.where(at_seven, 0, -1)}))

    verdict = judge(snapshot)

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.COLLECTIVE_MISMATCH, (3,))
    assert verdict.culprits[0].where is not None
    assert verdict.culprits[0].where.file == "share.py"


def test_opposite_group_order_names_the_circle_and_not_those_behind_it():
    """Ranks 1 and 2 enter two groups in opposite order; 0 and 3 wait for them and are victims."""
    groups = [
        Group("gloo", "0", "default_pg", (0, 1, 2, 3)),
        Group("gloo", "1", "tp", (1, 2)),
        Group("gloo", "2", "dp", (1, 2)),
    ]
    builder = build(4, groups, seq=5)
    for rank in (0, 3):
        builder.enters(rank, "all_reduce", seq=6)
    builder.enters(1, "all_reduce", group=1)
    builder.enters(2, "all_reduce", group=2)
    for rank in (1, 2):
        builder.rows[rank].enqueued[0] = 5

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.proof) == (Cause.GROUP_ORDER_DEADLOCK, Proof.STRUCTURAL)
    assert verdict.culprit_ranks == (1, 2)
    assert "tp" in verdict.summary
    assert "dp" in verdict.summary


def exchange(builder, rank: int, kind: P2PKind, peer: int, waiting: int = 1) -> None:
    builder.p2p.append((rank, kind, peer, 0, waiting))
    builder.rows.setdefault(rank, Row(in_call("recv" if kind is P2PKind.RECV else "send"), Phase.P2P))


@pytest.mark.parametrize("kind", [P2PKind.RECV, P2PKind.SEND])
@pytest.mark.parametrize("size", [2, 3])
def test_ring_of_blocking_exchanges_is_a_deadlock(kind, size):
    """Everyone receives (or sends) first: a circle, all its members named, the rank behind it not."""
    builder = build(4)
    for rank in range(size):
        exchange(builder, rank, kind, (rank + 1) % size)
    for rank in range(size, 4):
        builder.enters(rank, "all_reduce")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.proof) == (Cause.P2P_DEADLOCK, Proof.STRUCTURAL)
    assert verdict.culprit_ranks == tuple(range(size))


def test_send_to_a_rank_that_went_on_to_a_collective_is_a_missing_receive():
    """Rank 1 sends to 2, which waits for 1 in all_reduce: no order of groups is at fault, a receive is missing."""
    builder = build(4)
    exchange(builder, 1, P2PKind.SEND, 2)
    for rank in (0, 2, 3):
        builder.enters(rank, "all_reduce")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.proof) == (Cause.P2P_DEADLOCK, Proof.STRUCTURAL)
    assert verdict.culprit_ranks == (1, 2)
    assert "a send or receive and a collective" in verdict.summary


def test_receive_posted_early_is_not_a_wait():
    """Rank 0 has an irecv outstanding and sleeps: it is the culprit, not a member of a circle."""
    builder = build(2)
    builder.does(0, "asleep")
    exchange(builder, 0, P2PKind.RECV, 1, waiting=0)
    exchange(builder, 1, P2PKind.RECV, 0)

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (0,))


def test_send_that_meets_its_receive_is_below_python():
    """One sends, the other receives, and nothing arrives: the network, and no rank."""
    builder = build(2)
    exchange(builder, 0, P2PKind.SEND, 1)
    exchange(builder, 1, P2PKind.RECV, 0)

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprits) == (Cause.ALL_ENTERED_NONE_LEFT, ())


def test_pipeline_of_receives_ends_at_the_first_stage():
    """A chain of receives leads to the rank that does not send."""
    builder = build(4)
    for rank in (1, 2, 3):
        exchange(builder, rank, P2PKind.RECV, rank - 1)
    builder.does(0, "loader")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (0,))


def test_receive_from_anyone_is_not_held_by_one_of_many():
    """A receive from any source waits for one of many: a rank that is really missed is named before them."""
    builder = build(4)
    builder.p2p.append((0, P2PKind.RECV_ANY, -1, 0, 1))
    builder.rows[0] = Row(in_call("recv"), Phase.P2P)
    exchange(builder, 1, P2PKind.RECV, 3)
    builder.does(2, "asleep")
    builder.does(3, "loader")

    assert judge(builder.snapshot()).culprit_ranks == (3,)


def test_monitored_barrier_names_who_does_not_come():
    """The recorder does not show it; the page's rows do."""
    builder = build(3)
    for rank in (0, 2):
        builder.p2p.append((rank, P2PKind.MONITORED_BARRIER, -1, 0, 1))
        builder.rows[rank] = Row(in_call("monitored_barrier"), Phase.COLLECTIVE)
    builder.does(1, "asleep")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1,))
    assert verdict.waiting[0].on == "monitored_barrier"


def test_everyone_in_and_none_out_names_no_rank():
    """All are in the same call with the same signature: below Python, nobody is accused."""
    verdict = judge(scene(all_reduce=[0, 1, 2, 3]))

    assert (verdict.status, verdict.cause, verdict.proof) == (
        Status.HANG,
        Cause.ALL_ENTERED_NONE_LEFT,
        Proof.TIME,
    )
    assert verdict.culprits == ()
    assert 0.4 < (verdict.settled or 0) < 0.8


def test_open_operations_in_two_groups_follow_the_stack():
    """With an async operation open elsewhere, the stack says in which one the host is blocked."""
    groups = [Group("gloo", "0", "default_pg", (0, 1, 2)), Group("gloo", "1", "side", (0, 2))]
    builder = build(3, groups, seq=5)
    builder.enters(0, "all_reduce")
    builder.enters(0, "broadcast", group=1)
    builder.enters(2, "all_reduce")
    builder.does(1, "asleep")

    verdict = judge(builder.snapshot())

    assert verdict.culprit_ranks == (1,)
    assert [waiting.on for waiting in verdict.waiting] == ["all_reduce"]


def test_builder_knows_a_backward_without_an_open_operation_computes():
    """A rank in backward with nothing open is computing, so it is the one that others wait for."""
    snapshot = scene(all_reduce=[0, 1], computing=[2])
    assert DOINGS["computing"].look in snapshot.samples[-1].sightings

    assert judge(snapshot).culprit_ranks == (2,)


def test_side_that_left_the_slot_is_not_shown_at_its_present_line():
    """Who has left the slot is at another line by now: no line is better than a wrong one."""
    builder = build(3, seq=7)
    builder.enters(0, "all_reduce", signature=replace(PLAIN, in_dtypes="[Double]"))
    for rank in (1, 2):
        builder.enters(rank, "all_reduce", seq=8)
        builder.ops.append((rank, 0, 7, PLAIN, OpState.COMPLETED))

    verdict = judge(builder.snapshot())

    assert verdict.culprit_ranks == (0,)
    assert "ranks 1-2 called all_reduce([[16, 4]] Float SUM)" in verdict.summary
    assert verdict.summary.count(" in train.py:40") == 1
