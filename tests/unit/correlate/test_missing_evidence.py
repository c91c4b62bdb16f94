"""Unknown is a value: less evidence gives less confidence or `undecided`, never somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddetect.correlate.judge import judge
from ddetect.correlate.scene import Scene
from ddetect.frameworks.kinds import Kind
from ddetect.model import (
    CallSpec,
    Cause,
    Departure,
    Group,
    OpenP2P,
    Ops,
    P2PKind,
    Phase,
    Progress,
    Roster,
    Sample,
    Snapshot,
    Status,
)
from ddetect.model.tables import join, keep_rows
from tests.unit.correlate.scenes import (
    Row,
    build,
    died,
    in_call,
    relabel,
    scene,
    without_page,
    without_progress,
    without_stack,
)
from tests.unit.snapshots import changed


def test_unread_recorder_of_the_culprit_lowers_confidence():
    """Its stack says that it is elsewhere: still named, less surely, and listed as unread."""
    full = scene(all_reduce=[0, 1, 3], loader=[2])

    verdict = judge(without_progress(full, 2))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))
    assert verdict.confidence < judge(full).confidence
    assert "1 of 4 ranks unread" in verdict.summary


@pytest.mark.parametrize("last", [True, False], ids=["seen last", "seen first"])
def test_old_process_of_a_rank_is_not_taken_for_the_rank(last):
    """Both live for a while after a restart: the one in the roster speaks, wherever its row is."""
    snapshot = scene(all_reduce=[0, 1], asleep=[2])
    (*earlier, sample) = snapshot.samples
    old = keep_rows(sample, np.array([False, False, True]))
    old = replace(old, rank=np.array([1]), pid=np.array([11]))
    parts = [sample, old] if last else [old, sample]
    looks = (*earlier, join(Sample, parts))

    verdict = judge(changed(snapshot, samples=looks))

    assert verdict == judge(snapshot)
    process = Scene(changed(snapshot, samples=looks)).rank_process(1)
    assert (process.pid, process.doing.kind) == (4010, Kind.COLLECTIVE)


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


@pytest.mark.parametrize(("waits", "sleeps"), [(0, 1), (1, 0)])
def test_rank_whose_page_says_collective_is_not_accused_of_a_lock(waits, sleeps):
    """Work.wait() at a line of the user's looks like a lock; its page tells, where the recorder is unread."""
    builder = build(2)
    builder.does(sleeps, "asleep")
    builder.does(waits, "futex").phase = Phase.COLLECTIVE

    verdict = judge(without_progress(builder.snapshot(), waits))

    assert verdict.culprit_ranks == (sleeps,)


def test_rank_about_which_nothing_is_known_makes_it_undecided():
    """Recorder, stack and page all unread: who is missing is not known."""
    blind = without_page(without_stack(without_progress(scene(all_reduce=[0, 1, 3], loader=[2]), 2), 2), 2)

    verdict = judge(blind)

    assert (verdict.status, verdict.cause, verdict.culprits) == (Status.UNDECIDED, None, ())
    assert "rank 2 could not be read" in verdict.summary
    assert {rank for item in verdict.unread for rank in item.ranks} == {2}


def test_leaf_is_not_blamed_while_nobody_knows_where_the_root_is():
    """Leaves wait for the root of a broadcast; that another leaf is late explains nothing."""
    builder = build(4)
    for rank in (2, 3):
        builder.enters(rank, "broadcast", signature=CallSpec("broadcast", "[[4]]", "[Float]", root=1))
    builder.does(0, "loader")
    builder.does(1, "asleep")

    verdict = judge(without_page(without_stack(without_progress(builder.snapshot(), 1), 1), 1))

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert "rank 1 could not be read" in verdict.summary


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
    snapshot = changed(scene(all_reduce=[0, 1, 3], loader=[2]), progress=Progress(), ops=Ops())

    verdict = judge(snapshot)

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))
    assert verdict.confidence < 0.7


def test_everyone_in_a_collective_without_recorders_is_undecided():
    """All stacks in all_reduce and no recorder: mismatch, network or order cannot be told apart."""
    snapshot = changed(scene(all_reduce=[0, 1, 2]), progress=Progress(), ops=Ops())

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
    keep = ~((snapshot.comms.progress.rank == 1) & (snapshot.comms.progress.group == 0))
    columns = {name: getattr(snapshot.comms.progress, name)[keep] for name in Progress.__dataclass_fields__}
    columns["first_kept"] = np.full(keep.sum(), 3000)

    verdict = judge(changed(snapshot, progress=Progress(**columns)))

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


ROOTED = ["broadcast", "reduce", "gather", "scatter"]


@dataclass(frozen=True)
class Stuck:
    """A job that hangs, and the ranks that are at fault beside those that the full evidence names."""

    snapshot: Snapshot
    at_fault: frozenset[int] = frozenset()


Draw = Callable[[st.SearchStrategy[Any]], Any]


def _outside(draw: Draw, world: int) -> Stuck:
    """One or two ranks are elsewhere, each for its own reason."""
    odd = draw(st.lists(st.integers(0, world - 1), min_size=1, max_size=min(2, world - 1), unique=True))
    rest = [rank for rank in range(world) if rank not in odd]
    parts = {draw(st.sampled_from(["all_reduce", "backward"])): rest}
    for rank in odd:
        parts.setdefault(draw(st.sampled_from(KINDS)), []).append(rank)
    return Stuck(scene(**parts), frozenset(odd))


def _alone(draw: Draw, world: int) -> Stuck:
    """Nobody waits, and each does one of two things."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=2))
    parts: dict[str, list[int]] = {}
    for rank in range(world):
        parts.setdefault(draw(st.sampled_from(kinds)), []).append(rank)
    return Stuck(scene(**parts), frozenset(range(world)))


def _joining(draw: Draw, world: int) -> Stuck:
    odd = draw(st.integers(0, world - 1))
    return Stuck(scene(joining=[rank for rank in range(world) if rank != odd], starting=[odd]))


def _everyone(draw: Draw, world: int) -> Stuck:
    return Stuck(scene(all_reduce=range(world)))


def _mismatch(draw: Draw, world: int) -> Stuck:
    """Up to three sides of any size in one group, or in each of two; sometimes they differ in the operation."""
    half = draw(st.sampled_from([world, world // 2 if world > 3 else world]))
    members = [tuple(range(half)), tuple(range(half, world))]
    groups = [Group("gloo", str(1 + i), f"tp{i}", ranks) for i, ranks in enumerate(members) if ranks]
    builder = build(world, groups)
    for number, group in enumerate(groups):
        seq = draw(st.sampled_from([411, 412]))
        for rank in group.members:
            call = draw(st.sampled_from([*CALLS[:2], *CALLS]))
            builder.enters(rank, call.op, group=number, seq=seq, signature=call)
    return Stuck(builder.snapshot())


CALLS = [
    *(CallSpec("all_reduce", f"[[{size}]]", "[Float]") for size in (8, 9, 10)),
    CallSpec("all_reduce", "[[8]]", "[Half]"),
    CallSpec("barrier"),
]


def _other_root(draw: Draw, world: int) -> Stuck:
    """All are in one rooted operation, and believe in one of two roots."""
    op, roots = draw(st.sampled_from(ROOTED)), draw(st.permutations(range(world)))[:2]
    builder = build(world)
    for rank in range(world):
        root = draw(st.sampled_from(roots))
        builder.enters(rank, op, signature=CallSpec(op, "[[8]]", "[Float]", "[[8]]", "[Float]", root=root))
    return Stuck(builder.snapshot())


def _missing_root(draw: Draw, world: int) -> Stuck:
    """The root of an operation is elsewhere, and sometimes a leaf as well: nobody waits for it, but it is stuck too."""
    op, (root, leaf) = draw(st.sampled_from(ROOTED)), draw(st.permutations(range(world)))[:2]
    late = {root, leaf} if world > 2 and draw(st.booleans()) else {root}
    builder = build(world)
    for rank in range(world):
        if rank in late:
            builder.does(rank, draw(st.sampled_from(KINDS)))
        else:
            builder.enters(
                rank, op, signature=CallSpec(op, "[[8]]", "[Float]", "[[8]]", "[Float]", root=root)
            )
    return Stuck(builder.snapshot(), frozenset(late))


def _circles(draw: Draw, world: int) -> Stuck:
    """One or two pairs wait for each other, by groups or by receives; the rest waits for them."""
    ranks = draw(st.permutations(range(world)))
    pairs = [tuple(sorted(ranks[at : at + 2])) for at in (0, 2)[: draw(st.integers(1, 1 + (world > 3)))]]
    groups = [Group("gloo", "0", "default_pg", tuple(range(world)))]
    groups += [
        Group("gloo", str(len(groups) + i), name, pair)
        for pair in pairs
        for i, name in ((0, "tp"), (1, "dp"))
    ]
    builder = build(world, groups, seq=5)
    for number, pair in enumerate(pairs):
        by_groups = draw(st.booleans())
        for at, rank in enumerate(pair):
            if by_groups:
                builder.enters(rank, "all_reduce", group=1 + 2 * number + at)
                builder.rows[rank].enqueued[2 + 2 * number - at] = 4
            else:
                builder.p2p.append((rank, P2PKind.RECV, pair[1 - at], 0, 1))
                builder.rows[rank] = Row(in_call("recv"), Phase.P2P)
            builder.rows[rank].enqueued[0] = 5
    for rank in range(world):
        if rank not in builder.rows:
            builder.enters(rank, "all_reduce", seq=6)
    return Stuck(builder.snapshot(), frozenset(rank for pair in pairs for rank in pair))


def _deaths(draw: Draw, world: int) -> Stuck:
    """One or two ranks died, at times that can be told apart; one that lives may be elsewhere."""
    ranks = draw(st.permutations(range(world)))
    dead = ranks[: draw(st.integers(1, min(2, world - 1)))]
    ages = draw(st.permutations([5.0, 9.0]))
    gone = []
    for rank, age_s in zip(dead, ages, strict=False):
        how = draw(st.sampled_from([Departure.RAISED, Departure.VANISHED, Departure.EXITED]))
        words = draw(st.sampled_from(["ValueError: bad", "RuntimeError: Connection closed by peer"]))
        gone.append(died(rank, how, age_s=age_s, exception=words if how is Departure.RAISED else ""))
    parts = {"all_reduce": [rank for rank in range(world) if rank not in dead]}
    if len(parts["all_reduce"]) > 1 and draw(st.booleans()):
        parts[draw(st.sampled_from(KINDS))] = [parts["all_reduce"].pop()]
    at_fault = {rank for what, ranks in parts.items() if what != "all_reduce" for rank in ranks}
    return Stuck(scene(gone=gone, world=world, **parts), frozenset(at_fault | set(dead)))


WAYS = [
    _outside, _alone, _joining, _everyone, _mismatch, _other_root, _missing_root, _circles, _deaths,
]  # fmt: skip


@st.composite
def stuck_jobs(draw) -> Stuck:
    """A job of 2 to 7 ranks that hangs in one of the ways we know, or in two of them."""
    way = draw(st.sampled_from(WAYS))
    return way(draw, draw(st.integers(2, 7)))


@given(stuck_jobs(), st.randoms(use_true_random=False))
@settings(derandomize=True, max_examples=300, deadline=None)
def test_permuting_ranks_permutes_the_verdict_and_nothing_else(stuck, random):
    """No rank is the norm: the same job with other numbers gets the same verdict with other numbers."""
    snapshot = stuck.snapshot
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
    assert {(c.rank, c.where) for c in after.culprits} == {(order[c.rank], c.where) for c in before.culprits}
    waiting = {(tuple(sorted(order[r] for r in w.ranks)), w.group, w.seq) for w in before.waiting}
    assert {(w.ranks, w.group, w.seq) for w in after.waiting} == waiting


@given(stuck_jobs(), st.data())
@settings(derandomize=True, max_examples=400, deadline=None)
def test_dropping_evidence_of_some_ranks_never_names_an_innocent(stuck, data):
    """Take away stacks, recorders or pages of several ranks: the verdict may get weaker, never wrong.

    With two faults of different strength, the weaker may be all that is left: then that one is named.
    """
    less = stuck.snapshot
    ranks = data.draw(st.lists(st.integers(0, less.world_size - 1), min_size=1, unique=True))
    for rank in ranks:
        drops = st.lists(
            st.sampled_from([without_progress, without_stack, without_page]), min_size=1, unique=True
        )
        for drop in data.draw(drops):
            less = drop(less, rank)

    named = set(judge(less).culprit_ranks)

    assert named <= {*judge(stuck.snapshot).culprit_ranks, *stuck.at_fault}


def test_columns_used_by_the_properties_exist():
    """The renaming above covers every table that holds ranks."""
    for table in (Roster, Sample, Progress, Ops, OpenP2P):
        assert "rank" in table.__dataclass_fields__


@pytest.mark.parametrize("what", KINDS)
def test_single_sample_gives_the_same_cause(what):
    """The state machine also judges each look by itself."""
    snapshot = scene(all_reduce=[0, 1], **{what: [2]})

    assert judge(changed(snapshot, samples=snapshot.samples[:1])).cause is judge(snapshot).cause
