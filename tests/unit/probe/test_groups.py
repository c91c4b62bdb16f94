from __future__ import annotations

import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ddetect_probe import page, state
from ddetect_probe.hooks.torch import call_hooks, groups, p2p_hooks


class FakeGroup:
    """A process group that only knows its number."""

    group_desc = "fake"

    def __init__(self, sequence: int = 0) -> None:
        self.sequence = sequence

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence


class FakeTensor(SimpleNamespace):
    """Nothing but what the hooks ask of a tensor."""

    def __init__(self, elements: int, **more: Any) -> None:
        super().__init__(numel=lambda: elements, **more)


class FakeWork:
    pass


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Torch's table of groups, without torch."""
    made = SimpleNamespace(
        pg_names={}, pg_group_ranks={}, pg_backend_config={}, pg_map={}, group_count=0, default_pg=None
    )
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", SimpleNamespace(_world=made))
    for name in ("raw", "slots", "writer", "run_dir"):
        monkeypatch.setattr(state, name, getattr(state, name))
    for name in ("known", "default", "_numbers"):
        monkeypatch.setattr(groups, name, type(getattr(groups, name))() if name != "default" else None)
    (tmp_path / "pages").mkdir()
    state.open_page(str(tmp_path), page.ROLE_RANK)
    assert state.writer is not None
    made.page = page.Page(state.writer.path)
    return made


def add(
    world: Any, name: str, ranks: list[int], config: str = "cpu:gloo,cuda:gloo", sequence: int = 0
) -> FakeGroup:
    group = FakeGroup(sequence)
    world.pg_names[group] = name
    world.pg_group_ranks[group] = {rank: place for place, rank in enumerate(ranks)}
    world.pg_backend_config[group] = config
    return group


def test_groups_are_written_with_their_global_ranks(world: Any) -> None:
    """Name, description, backend and members of each, and a number that stays."""
    first = add(world, "0", [0, 1, 2, 5])
    world.default_pg = first
    groups.refresh()
    second = add(world, "7", [5, 2])

    assert groups.find(second) is not None

    assert world.page.groups() == [
        page.GroupText(0, "0", "fake", "gloo", "0-2,5"),
        page.GroupText(1, "7", "fake", "gloo", "2,5"),
    ]
    assert groups.find(None) is groups.find(first)


def test_group_this_rank_is_not_in_is_no_group(world: Any) -> None:
    """torch hands out a plain object for it."""
    assert groups.find(object()) is None


def test_group_is_not_kept_alive(world: Any) -> None:
    """When a group dies is the job's business."""
    gone: list[bool] = []
    group = add(world, "0", [0])
    groups.refresh()
    weakref.finalize(group, gone.append, True)
    world.pg_names.clear()
    world.pg_group_ranks.clear()
    world.pg_backend_config.clear()

    del group

    assert gone == [True]


def test_more_groups_than_the_text_holds_are_dropped_and_counted(world: Any) -> None:
    """The text stays readable, and the page says that some are missing."""
    for number in range(400):
        add(world, f"group-{number:04}", [0, number + 1])

    groups.refresh()

    assert 0 < len(world.page.groups()) < 400
    assert world.page.header()[page.S_GROUPS_DROPPED] == 1


def test_call_is_numbered_without_the_sends_that_gloo_counts_too(world: Any) -> None:
    """gloo's number counts p2p, the Flight Recorder's does not."""
    world.default_pg = add(world, "0", [4, 6], sequence=0)
    token = p2p_hooks.enter_send(None, 0, 6)
    work = FakeWork()
    p2p_hooks.opened(token, work)
    p2p_hooks.leave_p2p(token)
    world.default_pg.sequence = 1

    call_hooks.enter_of(call_hooks.BROADCAST, True, False)(None, FakeTensor(64), None, 1)

    assert world.page.calls() == [page.CallRow("broadcast", 0, 1, 6, "", 64)]


def test_newest_call_is_told_only_while_it_has_a_row(world: Any) -> None:
    """A call without root and reduce op writes no row: then the one before it must not stand for it."""
    world.default_pg = add(world, "0", [0, 1], sequence=6)
    assert world.page.newest_call() is None
    for elements in range(40):  # more than there are rows
        call_hooks.enter_of(call_hooks.BROADCAST, True, False)(None, FakeTensor(elements), 1, None)
        assert world.page.newest_call() == page.CallRow("broadcast", 0, 7, 1, "", elements)

    call_hooks.enter_call()

    assert world.page.newest_call() is None


def test_two_backends_in_one_group_are_two_groups(world: Any) -> None:
    """Their numbers are their own; the tensor's device tells which."""
    group = add(world, "0", [0, 1], "cpu:gloo,cuda:nccl", sequence=1)
    backend = SimpleNamespace(_get_sequence_number_for_group=lambda: 40)
    group._get_backend = lambda device: backend  # type: ignore[attr-defined]
    tensor = FakeTensor(1, device=SimpleNamespace(type="cuda"))

    call_hooks.enter_of(call_hooks.BROADCAST, True, False)(group, tensor, 1, None)

    (call,) = world.page.calls()
    named = {g.number: g.backend for g in world.page.groups()}
    assert (named[call.group], call.seq, call.root) == ("nccl", 41, 1)


def test_wrong_arguments_are_torchs_to_report(world: Any) -> None:
    """No row, no switched-off hook: the job gets torch's own error."""
    world.default_pg = add(world, "0", [0, 1])
    off = world.page.header()[page.S_HOOKS_OFF]

    call_hooks.enter_of(call_hooks.BROADCAST, True, False)(None, None, None, 9)
    call_hooks.enter_of(call_hooks.BROADCAST, True, False)(None, None, "one", None)
    p2p_hooks.enter_send(None, 0, "one")

    assert (world.page.calls(), world.page.open_ops()) == ([], [])
    assert world.page.header()[page.S_HOOKS_OFF] == off


def test_row_of_a_dropped_work_is_freed(world: Any) -> None:
    """An isend that nobody waits for ends with its Work."""
    world.default_pg = add(world, "0", [0, 1])
    token = p2p_hooks.enter_send(None, 3, 1)
    work = FakeWork()
    p2p_hooks.opened(token, work)
    p2p_hooks.leave_p2p(token)
    assert [(op.peer, op.tag, op.waiting) for op in world.page.open_ops()] == [(1, 3, False)]

    del work

    assert world.page.open_ops() == []
    assert len(state.free_rows) == page.P2P_ROWS


def test_wait_marks_its_row_and_frees_it_when_it_raises(world: Any) -> None:
    """The host is blocked exactly as long as the call lasts, however it ends."""
    world.default_pg = add(world, "0", [0, 1])
    seen: list[bool] = []

    class Work:
        pass

    def plain_wait(work: Work) -> None:
        seen.extend(op.waiting for op in world.page.open_ops())
        raise RuntimeError("peer is gone")

    Work.wait = p2p_hooks.WaitHook(Work, plain_wait)  # type: ignore[attr-defined]
    work: Any = Work()
    token = p2p_hooks.enter_recv(None, 0, None)
    p2p_hooks.opened(token, work)
    p2p_hooks.leave_p2p(token)
    assert [(op.kind, op.waiting) for op in world.page.open_ops()] == [(page.RECV_ANY, False)]

    with pytest.raises(RuntimeError, match="peer is gone"):
        work.wait()

    assert seen == [True]
    assert world.page.open_ops() == []


def test_more_open_operations_than_rows_cost_nothing_but_their_rows(world: Any) -> None:
    """The newest are not shown; none is lost when they end."""
    world.default_pg = add(world, "0", [0, 1])
    works = [FakeWork() for _ in range(page.P2P_ROWS + 5)]
    for work in works:
        token = p2p_hooks.enter_send(None, 0, 1)
        p2p_hooks.opened(token, work)
        p2p_hooks.leave_p2p(token)
    assert len(world.page.open_ops()) == page.P2P_ROWS

    works.clear()
    del work

    assert (world.page.open_ops(), len(state.free_rows)) == ([], page.P2P_ROWS)
