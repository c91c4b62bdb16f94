"""Dumps made by hand in the recorder's format (torch 2.13, version 2.10): no GPU was at hand for the NCCL ones."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddetect.evidence.flight_recorder import Digest, GroupDigest, PointToPoint, RootedCall, digest
from ddetect.evidence.flight_tables import CommsBuilder
from ddetect.model import UNKNOWN, Frame, Group, OpState, P2PKind

WORLD = Group("gloo", "0", "default_pg", (0, 1, 2, 3))
NCCL = Group("nccl", "0", "default_pg", (0, 1, 2, 3))


def entry(record: int, op: str, seq: int, **more: Any) -> dict[str, Any]:
    """One recorded operation; `op` with its backend, as the recorder writes it."""
    row = {
        "record_id": record,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": op,
        "time_created_ns": 1_000_000_000,
        "input_sizes": [[4, 4]],
        "output_sizes": [[4, 4]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": "scheduled",
        "retired": False,
        "is_p2p": False,
    }
    return {**row, **more}


def dump(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A whole dump; without entries it has no such key, as in life."""
    head = {"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}}, "pg_status": {}}
    return {**head, **({"entries": list(entries)} if entries else {}), **more}


def only(told: Digest) -> GroupDigest:
    (group,) = told.groups
    return group


def numbers(group: GroupDigest) -> tuple[int, int, int, int, int]:
    return group.enqueued, group.started, group.completed, group.oldest_open, group.first_kept


def test_gloo_completion_is_retired_and_nothing_else() -> None:
    """On gloo `state` says scheduled for ever: two retired and one not means two completed and the third open."""
    done = [entry(n, "gloo:all_reduce", n + 1, retired=True) for n in range(2)]

    group = only(digest(dump(*done, entry(2, "gloo:all_reduce", 3)), rank=1, groups=[WORLD]))

    assert numbers(group) == (3, 0, 2, 3, 1)
    assert [op.state for op in group.ops] == [OpState.COMPLETED, OpState.COMPLETED, OpState.ENQUEUED]


def test_members_come_from_the_page_because_gloo_does_not_keep_them() -> None:
    """gloo's pg_config is one nameless entry; the page knows who is in the group."""
    told = digest(dump(entry(0, "gloo:barrier", 1, retired=True)), rank=0, groups=[WORLD])

    assert only(told).group == WORLD


def test_dump_without_entries_means_nothing_was_begun() -> None:
    """No key at all when nothing was recorded: the group is known and stands at zero."""
    told = digest(dump(), rank=0, groups=[WORLD])

    assert (numbers(only(told)), only(told).group) == ((0, 0, 0, 0, 0), WORLD)


def test_group_that_fell_out_of_the_ring_is_not_called_idle() -> None:
    """Once the ring has wrapped, silence about a group proves nothing: no row rather than a false zero."""
    other = Group("gloo", "1", "rare", (0, 1))

    told = digest(dump(entry(500, "gloo:all_reduce", 480, retired=True)), rank=0, groups=[WORLD, other])

    assert (told.wrapped, [group.group for group in told.groups]) == (True, [WORLD])
    assert only(told).first_kept == 480


def test_nccl_host_ahead_of_device_shows_both() -> None:
    """The host has enqueued five, the device is in the third: oldest open is what counts."""
    states = ["completed", "completed", "started", "scheduled", "scheduled"]
    rows = [entry(n, "nccl:all_reduce", n + 1, state=state) for n, state in enumerate(states)]

    assert numbers(only(digest(dump(*rows), rank=0, groups=[NCCL]))) == (5, 3, 2, 3, 1)


def test_nccl_retired_is_not_completed() -> None:
    """A watchdog that gave up on an operation retires it; only `state` says that it completed."""
    row = entry(0, "nccl:all_reduce", 1, state="started", retired=True)

    assert numbers(only(digest(dump(row), rank=0, groups=[NCCL]))) == (1, 1, 0, 1, 1)


def test_nccl_members_come_from_pg_config_when_no_page_has_them() -> None:
    """An NCCL dump from elsewhere tells its own groups."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}

    told = digest(dump(entry(0, "nccl:all_reduce", 1), pg_config=config), rank=0)

    assert only(told).group == Group("nccl", "0", "default_pg", (0, 1))


def test_two_groups_number_their_operations_apart() -> None:
    """Sequence numbers are per group: the second group's first operation is its number one."""
    rows = [
        entry(0, "gloo:all_reduce", 1, retired=True),
        entry(1, "gloo:all_reduce", 2, retired=True),
        entry(2, "gloo:broadcast", 1, process_group=["1", "mesh_dp"]),
    ]
    second = Group("gloo", "1", "mesh_dp", (0, 2))

    told = digest(dump(*rows), rank=0, groups=[WORLD, second])

    assert {WORLD: (2, 0), second: (1, 1)} == {g.group: (g.enqueued, g.oldest_open) for g in told.groups}


def test_group_made_again_under_its_old_name_does_not_inherit_the_old_ones_operations() -> None:
    """destroy_process_group and init_process_group: the ring survives, the name is "0" again, `pg_id` counts on."""
    before = [entry(n, "gloo:broadcast", n + 1, retired=True) for n in range(40)]
    after = [entry(40 + n, "gloo:all_reduce", n + 1, pg_id=2, retired=n < 19) for n in range(20)]

    group = only(digest(dump(*before, *after), rank=0, groups=[WORLD]))

    assert numbers(group) == (20, 0, 19, 20, 1)
    assert {op.call.op for op in group.ops} == {"all_reduce"}


def test_group_made_again_under_another_description_is_told_once() -> None:
    """A name is one group to the page, whatever the one before it was called."""
    old = entry(0, "gloo:all_reduce", 1, retired=True, process_group=["1", "undefined"], pg_id=1)
    new = entry(1, "gloo:all_reduce", 1, process_group=["1", "mesh_dp"], pg_id=3)
    mesh = Group("gloo", "1", "mesh_dp", (0, 2))

    group = only(digest(dump(old, new), rank=0, groups=[mesh]))

    assert (group.group, group.oldest_open) == (mesh, 1)


def test_generations_of_two_backends_are_counted_apart() -> None:
    """gloo and NCCL number their groups each for itself."""
    rows = [entry(0, "gloo:barrier", 1, retired=True, pg_id=0), entry(1, "nccl:all_reduce", 1, pg_id=5)]

    told = digest(dump(*rows), rank=0, groups=[WORLD, NCCL])

    assert {group.group.backend: group.enqueued for group in told.groups} == {"gloo": 1, "nccl": 1}


def test_nameless_groups_are_not_taken_for_generations() -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL hides the names: what cannot be told apart is not thrown away."""
    rows = [entry(n, "gloo:all_reduce", n + 1, process_group=["", ""], pg_id=n) for n in range(2)]

    assert only(digest(dump(*rows), rank=0)).enqueued == 2


def test_root_and_reduce_op_are_merged_in_from_the_page() -> None:
    """The recorder keeps neither; the page has them under the same group and number."""
    rows = [entry(0, "gloo:broadcast", 1), entry(1, "gloo:all_reduce", 2)]
    calls = [RootedCall("broadcast", "0", 1, 3, ""), RootedCall("all_reduce", "0", 2, UNKNOWN, "MAX")]

    first, second = only(digest(dump(*rows), rank=0, groups=[WORLD], calls=calls)).ops

    assert (
        (first.call.op, first.call.root),
        (second.call.op, second.call.reduce_op),
    ) == (("broadcast", 3), ("all_reduce", "MAX"))


def test_call_of_another_operation_is_not_merged() -> None:
    """If page and recorder disagree about what number seven was, the page's root is not believed."""
    calls = [RootedCall("broadcast", "0", 7, 3, "")]

    (op,) = only(digest(dump(entry(0, "gloo:all_gather", 7)), rank=0, groups=[WORLD], calls=calls)).ops

    assert op.call.root == UNKNOWN


def test_coalesced_operation_is_as_far_as_its_closing_entry() -> None:
    """The parts of a coalesced operation never move: only the entry that closes it has events."""
    rows = [
        entry(0, "nccl:_all_gather_base", 1),
        entry(1, "nccl:_all_gather_base", 1, input_sizes=[[8]]),
        entry(2, "nccl:coalesced", 1, state="completed"),
    ]

    group = only(digest(dump(*rows), rank=0, groups=[NCCL]))

    assert numbers(group) == (1, 1, 1, 0, 1)
    assert (group.ops[0].call.op, group.ops[0].call.in_sizes) == (
        "_all_gather_base",
        "[[[4, 4]], [[8]]]",
    )


def test_open_nccl_exchanges_name_global_peers() -> None:
    """NCCL names ranks within the group; a stream runs in order, so only the oldest is waited for."""
    pair = Group("nccl", "5", "pp", (2, 6))
    rows = [
        entry(
            0, "nccl:send 0->1", 0, p2p_seq_id=1, is_p2p=True, state="completed", process_group=["5", "pp"]
        ),
        entry(1, "nccl:recv 0<-1", 0, p2p_seq_id=2, is_p2p=True, process_group=["5", "pp"]),
        entry(2, "nccl:send 0->1", 0, p2p_seq_id=3, is_p2p=True, process_group=["5", "pp"]),
    ]

    group = only(digest(dump(*rows), rank=2, groups=[pair], now_unix_ns=3_000_000_000))

    assert (
        PointToPoint(P2PKind.RECV, 6, True, 2.0),
        PointToPoint(P2PKind.SEND, 6, False, 2.0),
    ) == group.p2p
    assert numbers(group) == (0, 0, 0, 0, 0)


def test_finished_batch_of_exchanges_is_not_open() -> None:
    """batch_isend_irecv closes with a coalesced entry; its parts stay scheduled and mean nothing."""
    rows = [
        entry(0, "nccl:send 0->1", 0, p2p_seq_id=1, is_p2p=True),
        entry(1, "nccl:recv 0<-1", 0, p2p_seq_id=1, is_p2p=True),
        entry(2, "nccl:coalesced", 0, p2p_seq_id=1, is_p2p=True, state="completed"),
    ]

    assert only(digest(dump(*rows), rank=0, groups=[NCCL])).p2p == ()


def test_caller_is_the_innermost_frame_that_is_not_torchs() -> None:
    """Where a dump has frames (a pickle does), the user's line is the one to show."""
    frames = [
        {
            "name": "all_reduce",
            "filename": "/v/site-packages/torch/distributed/distributed_c10d.py",
            "line": 1,
        },
        {"name": "train", "filename": "/home/me/train.py", "line": 12},
    ]

    (op,) = only(digest(dump(entry(0, "nccl:all_reduce", 1, frames=frames)), rank=0, groups=[NCCL])).ops

    assert op.frame == Frame("train", "/home/me/train.py", 12)


def test_caller_is_the_users_line_behind_an_installed_trainer() -> None:
    """What is installed is shown only where nothing else is."""
    torchs = {"name": "all_reduce", "filename": "/v/site-packages/torch/distributed/c10d.py", "line": 1}
    trainers = {"name": "reduce", "filename": "/v/site-packages/lightning/x.py", "line": 2}
    users = {"name": "train", "filename": "/home/me/train.py", "line": 12}

    def caller(*frames: dict[str, object]) -> Frame | None:
        row = entry(0, "nccl:all_reduce", 1, frames=[*frames])
        return only(digest(dump(row), rank=0, groups=[NCCL])).ops[0].frame

    assert caller(torchs, trainers, users) == Frame("train", "/home/me/train.py", 12)
    assert caller(torchs, trainers) == Frame("reduce", "/v/site-packages/lightning/x.py", 2)
    assert caller(torchs) is None


def test_names_hidden_by_detail_mode_are_found_when_there_is_one_group() -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL empties the names; with a single group there is no doubt whose they are."""
    row = entry(0, "gloo:all_reduce", 1, process_group=["", ""])
    second = Group("gloo", "1", "", (0, 1))

    assert only(digest(dump(row), rank=0, groups=[WORLD])).group == WORLD
    assert digest(dump(row), rank=0, groups=[WORLD, second]).groups[0].group == Group("gloo", "", "", ())


def test_numbers_written_as_text_are_numbers() -> None:
    """Older dumps write collective_seq_id as text."""
    row = entry(0, "nccl:all_reduce", 1) | {"collective_seq_id": "9", "p2p_seq_id": "0"}

    assert only(digest(dump(row), rank=0, groups=[NCCL])).enqueued == 9


def test_newest_and_open_operations_are_kept_and_the_rest_is_not() -> None:
    """A full ring becomes a handful of rows; an old one that is still open is among them."""
    rows = [entry(n, "gloo:all_reduce", n + 1, retired=n != 10) for n in range(2000)]

    group = only(digest(dump(*rows), rank=0, groups=[WORLD]))

    assert (len(group.ops), group.ops[0].seq, group.ops[-1].seq) == (33, 11, 2000)
    assert numbers(group) == (2000, 0, 10, 11, 1)


def test_long_sizes_are_cut_and_still_differ() -> None:
    """A mismatch in the thousandth tensor must not be lost to the cut."""
    sizes = [[n] for n in range(1000)]
    ours = only(digest(dump(entry(0, "gloo:all_reduce", 1, input_sizes=[*sizes, [1]])), rank=0)).ops[0]
    theirs = only(digest(dump(entry(0, "gloo:all_reduce", 1, input_sizes=[*sizes, [2]])), rank=0)).ops[0]

    assert ours.call != theirs.call
    assert len(ours.call.in_sizes) < 1100


@pytest.mark.parametrize(
    "bad", [{}, {"entries": "x"}, {"version": "2.10", "entries": [{}]}, {"version": "2.10", "entries": [1]}]
)
def test_what_is_no_dump_is_a_value_error(bad: dict[str, Any]) -> None:
    """Something else in place of a dump is refused, not half read."""
    with pytest.raises(ValueError, match=r"Flight Recorder"):
        digest(bad, rank=0)


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_nothing_below_completed_is_ever_open(retired: list[bool]) -> None:
    """Completed is the highest number below which nothing is open, whatever order operations end in."""
    rows = [entry(n, "gloo:all_reduce", n + 1, retired=done) for n, done in enumerate(retired)]

    group = only(digest(dump(*rows), rank=0, groups=[WORLD]))

    assert all(retired[: group.completed])
    assert group.oldest_open == (0 if all(retired) else group.completed + 1)


def test_ranks_share_groups_and_signatures_in_the_tables() -> None:
    """What two ranks agree on is sent once; rows point to it."""
    builder = CommsBuilder()
    for rank in (0, 1):
        builder.add_digest(digest(dump(entry(0, "gloo:all_reduce", 1)), rank=rank, groups=[WORLD]))
    builder.add_p2p(1, P2PKind.SEND, 0, 7, WORLD, True, 1.5)
    builder.add_p2p(1, P2PKind.RECV_ANY, UNKNOWN, 0, None, False, math.inf)

    told = builder.build()

    assert (
        len(told.groups),
        len(told.calls),
        told.progress.rank.tolist(),
        told.ops.call.tolist(),
    ) == (1, 1, [0, 1], [0, 0])
    assert (told.p2p.group.tolist(), told.p2p.waiting.tolist()) == ([0, UNKNOWN], [1, 0])
