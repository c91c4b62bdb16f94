"""Unknown is a value: less evidence gives less confidence or `undecided`, never somebody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddetect.correlate.judge import judge
from ddetect.model import (
    Cause,
    Group,
    OpenP2P,
    Ops,
    P2PKind,
    Phase,
    Progress,
    Roster,
    Sample,
    Signature,
    Snapshot,
    Status,
)
from tests.unit.correlate.scenes import (
    Row,
    build,
    in_call,
    relabel,
    scene,
    without_page,
    without_progress,
    without_stack,
)


def test_unread_recorder_of_the_culprit_lowers_confidence():
    """Its stack says that it is elsewhere: still named, less surely, and listed as unread."""
    full = scene(all_reduce=[0, 1, 3], loader=[2])

    verdict = judge(without_progress(full, 2))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))
    assert verdict.confidence < judge(full).confidence
    assert "1 of 4 ranks unread" in verdict.summary


def test_unread_waiter_is_not_accused():
    """A rank in all_reduce whose recorder is silent waits like the others."""
    verdict = judge(without_progress(scene(all_reduce=[0, 1, 3], asleep=[2]), 0))

    assert verdict.culprit_ranks == (2,)


def test_unread_ddp_waiter_is_not_accused():
    """Backward looks like computing; without its recorder we do not know, so we do not accuse."""
    verdict = judge(without_progress(scene(backward=[0, 1, 3], asleep=[2]), 0))

    assert verdict.culprit_ranks == (2,)


def test_only_waiter_of_two_ranks_is_not_accused_when_its_recorder_is_unread():
    """In backward with nobody to tell why: DDP's all-reduce may hold it. The loader of the other one is named."""
    verdict = judge(without_progress(scene(backward=[0], loader=[1]), 0))

    assert verdict.culprit_ranks == (1,)
    assert verdict.confidence < 0.9


def test_rank_about_which_nothing_is_known_makes_it_undecided():
    """Recorder, stack and page all unread: who is missing is not known."""
    blind = without_page(without_stack(without_progress(scene(all_reduce=[0, 1, 3], loader=[2]), 2), 2), 2)

    verdict = judge(blind)

    assert (verdict.status, verdict.cause, verdict.culprits) == (Status.UNDECIDED, None, ())
    assert "rank 2 could not be read" in verdict.summary
    assert {rank for item in verdict.unread for rank in item.ranks} == {2}


def test_rank_in_disk_sleep_that_cannot_be_dumped_is_named():
    """A rank that cannot be dumped is evidence: state D says file I/O."""
    unread = without_stack(without_progress(scene(all_reduce=[0, 1, 3], loader=[2]), 2), 2, state="D")

    verdict = judge(without_page(unread, 2))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.FILE_IO, (2,))


def test_known_culprit_without_a_stack_is_named_without_a_cause():
    """The recorder proves who; what it does could not be read."""
    verdict = judge(scene(all_reduce=[0, 1, 3], unread=[2]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.UNDECIDED, None, (2,))


def test_no_recorder_at_all_falls_back_to_stacks():
    """Without any recorder the stacks still tell who is outside, less surely."""
    snapshot = replace(scene(all_reduce=[0, 1, 3], loader=[2]), progress=Progress(), ops=Ops())

    verdict = judge(snapshot)

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))
    assert verdict.confidence < 0.7


def test_everyone_in_a_collective_without_recorders_is_undecided():
    """All stacks in all_reduce and no recorder: mismatch, network or order cannot be told apart."""
    snapshot = replace(scene(all_reduce=[0, 1, 2]), progress=Progress(), ops=Ops())

    verdict = judge(snapshot)

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())


def test_one_unread_recorder_forbids_everyone_in_none_out():
    """Presence is not claimed of a rank whose recorder was not read."""
    assert judge(without_progress(scene(all_reduce=[0, 1, 2, 3]), 1)).status is Status.UNDECIDED


def test_group_that_fell_out_of_the_ring_does_not_accuse():
    """Rank 1 wrapped its ring in another group and has no row for this one, and it sits in a collective."""
    groups = [Group("gloo", "0", "default_pg", (0, 1)), Group("gloo", "1", "side", (1,))]
    builder = build(2, groups, seq=5)
    builder.enters(0, "all_reduce")
    builder.enters(1, "all_reduce", group=1)
    snapshot = builder.snapshot()
    keep = ~((snapshot.progress.rank == 1) & (snapshot.progress.group == 0))
    columns = {name: getattr(snapshot.progress, name)[keep] for name in Progress.__dataclass_fields__}
    columns["first_kept"] = np.full(keep.sum(), 3000)

    verdict = judge(replace(snapshot, progress=Progress(**columns)))

    assert 1 not in verdict.culprit_ranks


# ---------------------------------------------------------------- properties

KINDS = [
    "loader",
    "fetch",
    "asleep",
    "spinning",
    "pdb",
    "lock",
    "gil",
    "stopped",
    "flock",
    "disk",
    "leaving",
    "building",
    "computing",
]


@st.composite
def stuck_jobs(draw) -> Snapshot:
    """A job of 2 to 6 ranks that hangs in one of the ways we know."""
    world = draw(st.integers(2, 6))
    way = draw(st.sampled_from(["outside", "mismatch", "p2p", "order", "joining", "everyone"]))
    odd = draw(st.integers(0, world - 1))
    rest = [rank for rank in range(world) if rank != odd]
    if way == "outside":
        return scene(
            **{draw(st.sampled_from(["all_reduce", "backward"])): rest, draw(st.sampled_from(KINDS)): [odd]}
        )
    if way == "joining":
        return scene(joining=rest, starting=[odd])
    if way == "everyone":
        return scene(all_reduce=range(world))
    other = (odd + 1) % world
    pair = tuple(sorted((odd, other)))
    everyone = Group("gloo", "0", "default_pg", tuple(range(world)))
    builder = build(world, [everyone, Group("gloo", "1", "tp", pair), Group("gloo", "2", "dp", pair)], seq=5)
    if way == "mismatch":
        builder.groups = [everyone]
        for rank in range(world):
            builder.enters(
                rank, "all_reduce", signature=Signature("all_reduce", f"[[{8 + (rank == odd)}]]", "[Float]")
            )
        return builder.snapshot()
    for rank in rest:
        if rank != other:
            builder.enters(rank, "all_reduce", seq=6)
    if way == "order":
        builder.enters(odd, "all_reduce", group=1)
        builder.enters(other, "all_reduce", group=2)
    else:
        for rank, peer in ((odd, other), (other, odd)):
            builder.p2p.append((rank, P2PKind.RECV, peer, 0, 1))
            builder.rows[rank] = Row(in_call("recv"), Phase.P2P)
    for rank in pair:
        builder.rows[rank].enqueued[0] = 5
    return builder.snapshot()


@given(stuck_jobs(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_permuting_ranks_permutes_the_verdict_and_nothing_else(snapshot, random):
    """No rank is the norm: the same job with other numbers gets the same verdict with other numbers."""
    order = list(range(snapshot.world_size))
    random.shuffle(order)

    before, after = judge(snapshot), judge(relabel(snapshot, order))

    assert (after.status, after.cause, after.proof, after.confidence) == (
        before.status,
        before.cause,
        before.proof,
        before.confidence,
    )
    assert after.culprit_ranks == tuple(sorted(order[rank] for rank in before.culprit_ranks))
    assert {c.where for c in after.culprits} == {c.where for c in before.culprits}
    waiting = {(tuple(sorted(order[r] for r in w.ranks)), w.group, w.seq) for w in before.waiting}
    assert {(w.ranks, w.group, w.seq) for w in after.waiting} == waiting


@given(stuck_jobs(), st.data())
@settings(max_examples=200, deadline=None)
def test_dropping_evidence_of_one_rank_never_names_somebody_else(snapshot, data):
    """Take away a rank's stack, recorder or page (or several): the verdict may get weaker, never wrong."""
    rank = data.draw(st.integers(0, snapshot.world_size - 1))
    drops = data.draw(
        st.lists(st.sampled_from([without_progress, without_stack, without_page]), min_size=1, unique=True)
    )
    full = judge(snapshot)
    for drop in drops:
        snapshot = drop(snapshot, rank)

    verdict = judge(snapshot)

    assert set(verdict.culprit_ranks) <= set(full.culprit_ranks)


def test_columns_used_by_the_properties_exist():
    """The renaming above covers every table that holds ranks."""
    for table in (Roster, Sample, Progress, Ops, OpenP2P):
        assert "rank" in table.__dataclass_fields__


@pytest.mark.parametrize("what", KINDS)
def test_single_sample_gives_the_same_cause(what):
    """The state machine also judges each look by itself."""
    snapshot = scene(all_reduce=[0, 1], **{what: [2]})

    assert judge(replace(snapshot, samples=snapshot.samples[:1])).cause is judge(snapshot).cause
