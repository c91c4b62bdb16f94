"""Ranks of whom nobody has heard: on another node, or never started. Only who knows every node may tell which."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge
from ddetect.model import UNKNOWN, CallSpec, Cause, Snapshot, Status
from ddetect.wire.file import read_snapshot, write_snapshot
from tests.unit.correlate.scenes import DOINGS, build, in_call
from tests.unit.correlate.test_stacks_only import bare

JOINING, STARTING = DOINGS["joining"].look, DOINGS["starting"].look


def of_world(snapshot: Snapshot, world: int, local_world: int | None = None) -> Snapshot:
    """The same job with more ranks than were seen; `local_world` is what its node was told to have."""
    told = np.full(len(snapshot.roster), UNKNOWN if local_world is None else local_world)
    return replace(snapshot, world_size=world, roster=replace(snapshot.roster, local_world=told))


def unread_ranks(snapshot: Snapshot) -> set[int]:
    return {rank for item in judge(snapshot).unread for rank in item.ranks}


@pytest.mark.parametrize("told", [None, 4])
def test_ranks_of_other_nodes_are_not_accused_of_not_joining(told):
    """Attached on one node of two: the others may be joining as well."""
    snapshot = of_world(bare(dict.fromkeys(range(4), JOINING)), 8, told)

    verdict = judge(snapshot)

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert unread_ranks(snapshot) == {4, 5, 6, 7}
    assert any("another node" in item.reason for item in verdict.unread)


@pytest.mark.parametrize("told", [None, 4, 8])
def test_late_rank_of_this_node_is_named_alone(told):
    """What is seen is worth more than what is not."""
    looks = {0: JOINING, 1: JOINING, 2: STARTING, 3: JOINING}

    verdict = judge(of_world(bare(looks), 8, told))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.RENDEZVOUS, (2,))


def test_rank_without_a_process_is_named_when_every_node_is_heard():
    """Four ranks should be here, and three are."""
    verdict = judge(of_world(bare({0: JOINING, 1: JOINING, 3: JOINING}), 4, 4))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.HANG, Cause.RENDEZVOUS, (2,))
    assert not verdict.unread


def test_rank_without_a_process_is_named_when_all_of_two_nodes_are_heard():
    """Two nodes of two ranks each make the world of four."""
    snapshot = of_world(bare({0: JOINING, 1: JOINING, 3: JOINING}), 4, 2)
    roster = replace(snapshot.roster, node=np.array([0, 0, 1]), nodes=("a", "b"))

    assert judge(replace(snapshot, roster=roster)).culprit_ranks == (2,)


def test_ranks_of_other_nodes_are_not_accused_of_a_collective():
    """A group that exists has all its processes, wherever they are."""
    calls = dict.fromkeys(range(4), CallSpec("all_reduce"))
    snapshot = of_world(bare(dict.fromkeys(range(4), in_call("all_reduce")), calls), 8)

    verdict = judge(snapshot)

    assert (verdict.status, verdict.culprits, verdict.waiting[0].ranks) == (
        Status.UNDECIDED,
        (),
        (0, 1, 2, 3),
    )
    assert unread_ranks(snapshot) == {4, 5, 6, 7}


def test_ranks_of_a_node_whose_agent_never_came_are_not_accused():
    """Recorders of this node show who waits; of the other node nothing is known."""
    builder = build(8)
    for rank in range(4):
        builder.enters(rank, "all_reduce")

    verdict = judge(builder.snapshot())

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert "ranks 4-7" in verdict.summary


def test_rank_of_this_node_is_named_though_other_nodes_are_unheard():
    """Less surely than with everybody in view."""
    builder = build(8)
    for rank in (0, 1, 3):
        builder.enters(rank, "all_reduce")
    builder.does(2, "loader")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))
    assert verdict.confidence < 0.97


def test_unheard_ranks_do_not_turn_new_group_into_a_first_meeting():
    """Who makes a second group is past the first one: rank 1 of this node does not come."""
    making = DOINGS["joining"].look.threads[0]
    new_group = replace(making, stack=(replace(making.stack[0], function="new_group"), *making.stack[2:]))
    looks = {0: replace(DOINGS["joining"].look, threads=(new_group,)), 1: DOINGS["asleep"].look}

    verdict = judge(of_world(bare(looks), 4))

    assert verdict.culprit_ranks == (1,)
    assert verdict.waiting[0].on == "new_group"


def test_what_a_node_was_told_survives_the_file(tmp_path):
    """A replay judges alike."""
    snapshot = of_world(bare({0: JOINING, 1: JOINING, 3: JOINING}), 4, 4)
    write_snapshot(tmp_path / "one.ddsnap", snapshot)

    assert judge(read_snapshot(tmp_path / "one.ddsnap")) == judge(snapshot)
