"""Lanes beside lane 0, and a lane that is lent: replicas of one process, each in a thread."""

from __future__ import annotations

import os

from ddetect_probe import lane, lanes, page
from ddetect_probe.hooks.tensorflow import replica_hooks, step_hooks

from tests.unit.probe.conftest import Actor


def phases(seen: page.Page) -> dict[int, tuple[int, int]]:
    """Of each lane, the kernel's number of its thread and its phase."""
    return {row.lane: (row.tid, row.phase) for row in seen.lanes()}


def test_thread_of_a_lane_writes_that_lane_and_not_lane_0(seen: page.Page, actor: Actor) -> None:
    """What a replica does is its own; lane 0 is somebody else's."""
    actor(lanes.take, 2, page.COLLECTIVE)
    actor(lane.say, page.OTHER)
    token = actor(lane.enter_phase, page.DATA)
    inside = phases(seen)
    actor(lane.leave_phase, token)

    assert inside == {0: (os.getpid(), page.STARTING), 2: (actor.tid, page.DATA)}
    assert phases(seen)[2] == (actor.tid, page.OTHER)


def test_lane_that_its_thread_left_goes_on_without_one(seen: page.Page, actor: Actor) -> None:
    """Between two steps a replica waits for the next, in no thread."""
    actor(lanes.take, 1, page.OTHER)

    actor(lanes.part, page.COLLECTIVE)

    assert phases(seen)[1] == (0, page.COLLECTIVE)
    lanes.count_step(7)
    assert (seen.lanes()[1].steps, seen.lanes()[1].step_ns) == (1, 7)
    actor(lane.enter_phase, page.DATA)
    assert phases(seen)[1] == (0, page.COLLECTIVE)


def test_lane_that_the_page_has_no_row_for_is_not_shown(seen: page.Page, actor: Actor) -> None:
    """The seventeenth replica is not told; nobody else's row is touched."""
    actor(lanes.take, page.LANES, page.OTHER)

    assert list(phases(seen)) == [0]


def test_lent_lane_is_the_borrowers_whatever_others_do(seen: page.Page, actor: Actor, other: Actor) -> None:
    """Replica 0 in user code is what lane 0 does, though the main thread is inside a step and others inside a load."""
    token = lane.enter_phase(page.STEP)
    assert lane.lend()
    actor(lane.borrow, page.COLLECTIVE)
    actor(lane.say, page.OTHER)
    other(lane.enter_phase, page.COLLECTIVE)
    for _ in range(3):
        lane.arbitrate()
    lent = phases(seen)[0]
    lane.leave_phase(lane.enter_phase(page.COLLECTIVE))  # the main thread merges
    merged = phases(seen)[0]

    lane.give_back()

    assert lent == merged == (actor.tid, page.OTHER)
    assert phases(seen)[0] == (os.getpid(), page.STEP)
    lane.leave_phase(token)
    assert phases(seen)[0] == (os.getpid(), page.STARTING)


def test_second_lender_gets_nothing(seen: page.Page, actor: Actor) -> None:
    """Two threads that train side by side: the first one's replicas are shown."""
    assert lane.lend()

    assert actor(lane.lend) is False
    actor(lane.give_back)
    assert lane.lent()
    lane.give_back()
    assert not lane.lent()


def eager_step(actor: Actor, eagerly: bool = True) -> None:
    token = replica_hooks.enter_of(lambda: eagerly)()
    actor(lanes.take, 1, page.OTHER)
    actor(lanes.part, page.COLLECTIVE)
    replica_hooks.all_done(token, None)
    replica_hooks.leave_all(token)


def test_lanes_of_an_eager_loop_stay_between_its_steps(seen: page.Page, actor: Actor) -> None:
    """A slow loop has ticks without a replica's thread; the roster must not change each time."""
    for _ in range(3):
        eager_step(actor)
        for _ in range(3 * replica_hooks.GONE_AFTER):
            replica_hooks.fade()

    assert list(phases(seen)) == [0, 1]
    assert [row.steps for row in seen.lanes()] == [3, 3]


def test_lanes_go_when_training_goes_on_without_replica_threads(seen: page.Page, actor: Actor) -> None:
    """Steps are done, and no replica had a thread in them: they cannot be told apart any more."""
    eager_step(actor)
    replica_hooks.fade()
    for number in range(replica_hooks.GONE_AFTER):
        assert list(phases(seen)) == [0, 1]
        step_hooks.count_step(number)
        replica_hooks.fade()

    assert list(phases(seen)) == [0]


def test_lanes_of_a_trace_go_when_it_is_done(seen: page.Page, actor: Actor) -> None:
    """A step that hangs at its first run must not show replicas that wait without a thread."""

    class Options:
        name = "train_step"

    token = step_hooks.enter_trace(Options())
    eager_step(actor, eagerly=False)
    replica_hooks.fade()
    assert (list(phases(seen)), seen.tracing()) == ([0, 1], "train_step")
    step_hooks.leave_trace(token)

    replica_hooks.fade()

    assert (list(phases(seen)), seen.tracing()) == ([0], "")
    assert seen.lanes()[0].steps == 0
