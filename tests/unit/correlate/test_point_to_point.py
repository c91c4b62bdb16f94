"""Sends and receives: whose silence proves something, and which send meets which receive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddetect.correlate.judge import judge
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import find_waits
from ddetect.model import UNKNOWN, CallSpec, Cause, Group, P2PKind, Phase, Proof, Snapshot, Status
from tests.unit.correlate.scenes import (
    C10D,
    DOINGS,
    TRAIN,
    Builder,
    Row,
    build,
    in_call,
    sighting,
    thread,
    without_page,
    without_progress,
    without_stack,
)
from tests.unit.correlate.test_stacks_only import SLEEPER, bare
from tests.unit.snapshots import changed

NCCL = Group("nccl", "0", "default_pg", (0, 1, 2))
RECV, SEND, ANY, BARRIER = P2PKind.RECV, P2PKind.SEND, P2PKind.RECV_ANY, P2PKind.MONITORED_BARRIER
PICKLES = sighting(
    thread(
        f"_object_to_tensor {C10D}:2500",
        f"all_gather_object {C10D}:2600",
        *TRAIN,
        state="R",
        active=True,
    ),
    state="R",
)


def waiting_in(builder: Builder, rank: int, kind: P2PKind, peer: int, group: int = 0) -> None:
    builder.rows[rank] = Row(in_call("send" if kind is SEND else "recv"), Phase.P2P)
    builder.p2p.append((rank, kind, peer, group, 1))


def pipeline(middle: str = "") -> Builder:
    """Rank 0 receives from 1, 1 from 2, which sleeps."""
    builder = build(3)
    waiting_in(builder, 0, RECV, 1)
    if middle:
        builder.does(1, middle)
    else:
        waiting_in(builder, 1, RECV, 2)
    builder.does(2, "asleep")
    return builder


def tagged(snapshot: Snapshot, *tags: int) -> Snapshot:
    return changed(snapshot, p2p=replace(snapshot.comms.p2p, tag=np.array(tags)))


def on_nccl(middle: str = "item") -> Snapshot:
    builder = build(3, [NCCL])
    builder.does(0, "item")
    builder.rows[0].look = in_call("recv")
    builder.does(1, middle)
    builder.does(2, "asleep")
    builder.p2p = [(0, RECV, 1, 0, 1), (1, RECV, 2, 0, 1)]
    return builder.snapshot()


# ---------------------------------------------------------------- whose silence proves something


def test_peer_on_a_device_whose_recorder_was_not_read_is_not_accused():
    """Its host is busy in .item(), which may well be waiting for its stream: nothing is claimed."""
    assert judge(on_nccl()).culprit_ranks == (2,)

    verdict = judge(without_progress(on_nccl(), 1))

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())


def test_peer_on_a_device_that_sleeps_is_presumed_when_its_recorder_was_not_read():
    """Its own stack says that it is elsewhere: named, and less surely."""
    verdict = judge(without_progress(on_nccl("asleep"), 1))

    assert verdict.culprit_ranks == (1,)
    assert verdict.confidence < 0.7


def test_peer_of_which_nothing_was_read_is_blind():
    """No page, no stack: an open receive of its own could not be seen."""
    dark = without_page(without_stack(pipeline().snapshot(), 1), 1)

    verdict = judge(dark)

    assert (verdict.status, verdict.culprits) == (Status.UNDECIDED, ())
    assert "rank 1 could not be read" in verdict.summary


def test_peer_without_a_page_is_presumed_by_its_stack():
    """It loads data; what it posted before is not known."""
    full = pipeline("loader").snapshot()

    verdict = judge(without_page(full, 1))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (1,))
    assert (verdict.settled or 0) < (judge(full).settled or 0) == 0.97


def test_peer_that_the_newest_look_does_not_show_is_not_accused():
    """Its node did not answer: the page is known from an old beat, its rows are not."""
    full = pipeline().snapshot()
    newest = full.samples[-1]
    keep = newest.rank != 1
    columns = {n: getattr(newest, n)[keep] for n in newest.__dataclass_fields__ if n != "sightings"}
    rows = {
        n: getattr(full.comms.p2p, n)[full.comms.p2p.rank != 1] for n in full.comms.p2p.__dataclass_fields__
    }
    less = type(newest)(**columns, sightings=newest.sightings)

    verdict = judge(changed(full, samples=(*full.samples[:-1], less), p2p=type(full.comms.p2p)(**rows)))

    assert 1 not in verdict.culprit_ranks


def test_rank_with_a_full_table_has_not_certainly_not_posted():
    """The page has 32 rows: what the 33rd would be nobody knows."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    builder.does(1, "asleep")
    few = builder.snapshot()
    builder.p2p += [(1, RECV, 0, 0, 0)] * 32

    verdict = judge(builder.snapshot())

    assert verdict.culprit_ranks == judge(few).culprit_ranks == (1,)
    assert verdict.confidence < judge(few).confidence


def test_full_table_makes_no_structural_circle():
    """Rank 1 waits for 0 and has 32 operations open: the send that 0 waits for may be the 33rd."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, RECV, 0)
    builder.p2p += [(1, RECV, 0, 0, 0)] * 31

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.proof) == (Cause.P2P_DEADLOCK, Proof.TIME)
    assert verdict.confidence < 0.95


def test_circle_through_a_rank_without_a_page_takes_time():
    """Its stack shows a receive and no send that it posted before: not structural."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, RECV, 0)
    builder.rows[1].phase = UNKNOWN

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.proof, verdict.culprit_ranks) == (Cause.P2P_DEADLOCK, Proof.TIME, (0, 1))


def test_receive_from_anyone_accuses_nobody_while_a_rank_is_dark():
    """One of many would do, and the one that could not be read may be it."""
    builder = build(3)
    waiting_in(builder, 0, ANY, UNKNOWN)
    builder.does(1, "asleep")
    builder.does(2, "asleep")
    full = builder.snapshot()
    assert judge(full).culprit_ranks == (1, 2)

    assert judge(without_page(without_stack(full, 2), 2)).culprits == ()


def test_send_to_a_rank_nobody_could_tell_accuses_nobody():
    """The argument could not be read: it is no receive from anyone."""
    builder = build(3)
    waiting_in(builder, 0, SEND, UNKNOWN)
    for rank in (1, 2):
        builder.does(rank, "asleep")

    assert not find_waits(Scene(builder.snapshot())).roots(Scene(builder.snapshot()))


# ---------------------------------------------------------------- which send meets which receive


def test_other_tag_does_not_meet():
    """A send with tag 7 is not what a receive with tag 5 waits for: each waits for the other."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, SEND, 0)

    verdict = judge(tagged(builder.snapshot(), 5, 7))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.P2P_DEADLOCK, (0, 1))
    assert "tag 5" in verdict.summary
    assert "tag 7" in verdict.summary
    assert judge(tagged(builder.snapshot(), 5, 5)).cause is Cause.ALL_ENTERED_NONE_LEFT


def test_other_tag_posted_early_does_not_excuse_a_sleeper():
    """Rank 1 has sent something else, and sleeps."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    builder.does(1, "asleep")
    builder.p2p.append((1, SEND, 0, 0, 0))

    assert judge(tagged(builder.snapshot(), 5, 7)).culprit_ranks == (1,)


def test_tags_do_not_count_on_a_device():
    """NCCL has none, and its recorder says 0."""
    builder = build(2, [replace(NCCL, members=(0, 1))])
    for rank, kind in ((0, RECV), (1, SEND)):
        builder.does(rank, "item")
        builder.p2p.append((rank, kind, 1 - rank, 0, 1))

    assert judge(tagged(builder.snapshot(), 5, 0)).cause is Cause.ALL_ENTERED_NONE_LEFT


def test_tag_that_a_stack_may_not_have_shown_is_not_held_against_it():
    """From a stack an unread tag is 0: neither met nor missing."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, SEND, 0)
    builder.rows[1].phase = UNKNOWN

    assert judge(tagged(builder.snapshot(), 5, 0)).status is Status.UNDECIDED


@pytest.mark.parametrize("first", [0, 1])
def test_rank_known_by_its_stack_meets_one_with_a_page(first):
    """The stack's default group has no backend and no members, and is the same group all the same."""
    builder = build(2)
    waiting_in(builder, first, RECV, 1 - first)
    waiting_in(builder, 1 - first, SEND, first, group=1)
    builder.rows[1 - first].phase = UNKNOWN
    builder.groups.append(Group("", "0", "default_pg"))

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprits) == (Cause.ALL_ENTERED_NONE_LEFT, ())


def test_group_that_nobody_could_tell_is_neither_met_nor_missing():
    """A stack shows a send in some group: it may be the one."""
    builder = build(2)
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, SEND, 0, group=UNKNOWN)
    builder.rows[1].phase = UNKNOWN

    assert judge(builder.snapshot()).status is Status.UNDECIDED


def test_other_group_does_not_meet():
    """Sent in one group, expected in another: they wait for each other."""
    builder = build(2, [Group("gloo", "0", "default_pg", (0, 1)), Group("gloo", "1", "pp", (0, 1))])
    waiting_in(builder, 0, RECV, 1)
    waiting_in(builder, 1, SEND, 0, group=1)

    assert judge(builder.snapshot()).cause is Cause.P2P_DEADLOCK


def test_group_of_two_backends_may_meet():
    """The page files "cpu:gloo,cuda:nccl" under its first backend; the recorder says which one ran."""
    members = (0, 1)
    builder = build(2, [Group("gloo", "0", "default_pg", members), Group("nccl", "0", "default_pg", members)])
    waiting_in(builder, 0, RECV, 1)
    builder.does(1, "item")
    builder.p2p.append((1, SEND, 0, 1, 1))

    assert judge(builder.snapshot()).culprits == ()


def test_barrier_in_a_group_that_nobody_could_tell_is_no_other_barrier():
    """Rank 2's page had no room for the name of its group: it is in, as far as one can tell."""
    builder = build(3)
    for rank, group in ((0, 0), (1, 0), (2, UNKNOWN)):
        builder.rows[rank] = Row(in_call("monitored_barrier"), Phase.COLLECTIVE)
        builder.p2p.append((rank, BARRIER, UNKNOWN, group, 1))

    assert judge(builder.snapshot()).culprits == ()


# ---------------------------------------------------------------- beside collectives


def test_receive_elsewhere_does_not_hide_who_is_missed_in_a_collective():
    """No recorder: two wait in broadcast for the loader, a third for one of the two."""
    looks = {0: DOINGS["loader"].look, 1: in_call("broadcast"), 2: in_call("broadcast"), 3: in_call("recv")}
    calls = {1: CallSpec("broadcast", root=0), 2: CallSpec("broadcast", root=0)}

    verdict = judge(bare(looks, calls, own_group=(1, 2), p2p=[(3, RECV, 1)]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (0,))


def test_receive_from_one_of_those_that_wait_is_a_victim():
    """The chain ends at the sleeper, not at those who wait for it."""
    looks = {0: SLEEPER, 1: in_call("all_reduce"), 2: in_call("all_reduce"), 3: in_call("recv")}

    verdict = judge(bare(looks, dict.fromkeys((1, 2), CallSpec("all_reduce")), p2p=[(3, RECV, 1)]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (0,))
    assert {rank for waiting in verdict.waiting for rank in waiting.ranks} == {1, 2, 3}


def pickling() -> Builder:
    builder = build(4)
    for rank in (0, 1, 3):
        builder.enters(rank, "all_reduce")
    builder.rows[2] = Row(PICKLES, Phase.COLLECTIVE)
    return builder


def test_rank_that_works_inside_torch_and_has_not_entered_is_named():
    """Its recorder was read and is one operation behind: the pickling is its own."""
    verdict = judge(pickling().snapshot())

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.HANG, Cause.USER_CODE, (2,))
    assert "all_gather_object" in verdict.summary


@pytest.mark.parametrize("lose", [without_progress, without_page])
def test_rank_inside_torch_is_not_named_when_something_of_it_is_unread(lose):
    """Without its recorder it may be in the collective, without its page in a send or a monitored barrier."""
    assert judge(lose(pickling().snapshot(), 2)).culprits == ()


def test_recorders_are_not_called_unread_when_all_were_read():
    """A rank waits inside a receive that only its page could show; every recorder has answered."""
    builder = pickling()
    builder.rows[2] = Row(in_call("recv"), UNKNOWN)

    verdict = judge(builder.snapshot())

    assert verdict.status is Status.UNDECIDED
    assert "recorder could" not in verdict.summary
    assert "rank 2" in verdict.summary


# ---------------------------------------------------------------- size


class _Counted(np.ndarray):  # type: ignore[type-arg]
    """Counts how often a whole column is compared."""

    compared = 0

    def __eq__(self, other: object):  # type: ignore[override]
        _Counted.compared += 1
        return np.asarray(self) == other


def test_asking_for_each_rank_does_not_search_all_processes_each_time():
    """One question per rank of a large job must stay one step per rank."""
    snapshot = build(64)
    for rank in range(64):
        snapshot.does(rank, "asleep")
    scene = Scene(snapshot.snapshot())
    for sample in scene.snapshot.samples:
        object.__setattr__(sample, "pid", np.asarray(sample.pid).view(_Counted))
    _Counted.compared = 0

    states = {scene.rank_process(rank).states for rank in range(64)}

    assert states == {"SSS"}
    assert _Counted.compared <= 3


def test_own_business_is_asked_once_for_all_receives(monkeypatch):
    """Not once per row."""
    import ddetect.correlate.point_to_point as module

    asked = []
    original = module.minds_own_business
    monkeypatch.setattr(module, "minds_own_business", lambda scene: asked.append(1) or original(scene))
    builder = build(16, [Group("nccl", "0", "default_pg", tuple(range(16)))])
    for rank in range(16):
        builder.does(rank, "item")
        builder.p2p.append((rank, RECV, (rank + 1) % 16, 0, 1))

    judge(builder.snapshot())

    assert len(asked) <= 1
