"""NCCL: the host runs ahead of the device. Rows as a digested Flight Recorder gives them; no GPU was at hand."""

from __future__ import annotations

import numpy as np

from ddetect.correlate.judge import judge
from ddetect.model import Cause, Group, P2PKind, Progress, Snapshot, Status
from tests.unit.correlate.scenes import Builder, build, in_call
from tests.unit.snapshots import changed

NCCL = Group("nccl", "0", "default_pg", (0, 1, 2, 3))


def devices(
    doing: list[str], enqueued: list[int], open_from: list[int], started: list[int] | None = None
) -> Snapshot:
    """Four ranks: what each host does, the newest it enqueued, the oldest its device has not completed (0: none)."""
    builder: Builder = build(4, [NCCL], seq=100)
    for rank, what in enumerate(doing):
        if what == "all_reduce":
            builder.enters(rank, "all_reduce", seq=open_from[rank])
        else:
            builder.does(rank, what)
            if open_from[rank]:
                builder.enters(rank, "all_reduce", seq=open_from[rank])
    snapshot = builder.snapshot()
    columns = {name: getattr(snapshot.comms.progress, name) for name in Progress.__dataclass_fields__}
    columns["enqueued"] = np.array(enqueued)
    columns["oldest_open"] = np.array(open_from)
    columns["completed"] = np.array([o - 1 if o else e for o, e in zip(open_from, enqueued, strict=True)])
    columns["started"] = np.array(started or [0] * 4)
    return changed(snapshot, progress=Progress(**columns))


def test_one_rank_not_enqueued_is_the_culprit_though_the_others_show_an_innocent_item():
    """Three hosts wait in .item() for a device that waits for rank 2, which loads data."""
    verdict = judge(devices(["item", "item", "loader", "item"], [104, 104, 99, 104], [100, 100, 0, 100]))

    assert (verdict.status, verdict.cause, verdict.culprit_ranks) == (Status.HANG, Cause.DATA_LOADING, (2,))
    assert (verdict.waiting[0].ranks, verdict.waiting[0].seq) == ((0, 1, 3), 100)


def test_host_ahead_in_its_loader_waits_on_the_device():
    """Rank 0 is in its DataLoader with operations open: its stream waits, and nobody waits for its host."""
    verdict = judge(devices(["loader", "item", "asleep", "item"], [104, 104, 99, 104], [100, 100, 0, 100]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (2,))
    assert 0 in verdict.waiting[0].ranks


def test_loader_with_an_open_operation_is_guilty_of_what_it_never_enqueued():
    """Rank 2's stream has #100 open, which all have enqueued; the others wait for its #101."""
    verdict = judge(devices(["item", "item", "loader", "item"], [101, 101, 100, 101], [101, 101, 100, 101]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DATA_LOADING, (2,))


def test_all_enqueued_and_none_completed_names_no_rank():
    """Equal counters everywhere: below Python."""
    verdict = judge(devices(["item"] * 4, [104] * 4, [100] * 4))

    assert (verdict.cause, verdict.culprits) == (Cause.ALL_ENTERED_NONE_LEFT, ())


def test_one_device_that_never_completed_is_named_with_little_confidence():
    """All enqueued, three completed #100, one did not: its device, and we are not sure."""
    verdict = judge(devices(["item"] * 4, [100] * 4, [0, 0, 100, 0]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DEVICE_STUCK, (2,))
    assert verdict.confidence <= 0.5


def test_one_device_that_never_started_is_named():
    """Where the recorder tells starts, the device that has not begun is the one."""
    verdict = judge(devices(["item"] * 4, [104] * 4, [100] * 4, started=[100, 100, 99, 100]))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.DEVICE_STUCK, (2,))


def test_nccl_and_gloo_in_opposite_order_are_a_circle():
    """Six ranks wait in an NCCL broadcast, two in a gloo gather: each set waits for the other."""
    groups = [Group("nccl", "0", "default_pg", tuple(range(8))), Group("gloo", "1", "cpu", tuple(range(8)))]
    builder = build(8, groups, seq=78)
    for rank in range(8):
        if rank in (0, 4):
            builder.enters(rank, "all_gather", group=1)
        else:
            builder.does(rank, "item")
            builder.enters(rank, "broadcast")

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.GROUP_ORDER_DEADLOCK, tuple(range(8)))


def test_receive_posted_on_the_device_does_not_hold_a_host_that_is_elsewhere():
    """Outstanding is not waiting: rank 1 posted its receive early and sleeps in user code."""
    builder = build(2, [Group("nccl", "0", "default_pg", (0, 1))])
    builder.does(0, "item")
    builder.rows[0].look = in_call("recv")
    builder.does(1, "asleep")
    builder.p2p = [(0, P2PKind.RECV, 1, 0, 1), (1, P2PKind.RECV, 0, 0, 1)]

    verdict = judge(builder.snapshot())

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.USER_CODE, (1,)), verdict.summary
