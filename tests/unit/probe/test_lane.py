"""Whose thread the lane is, with real threads that do one thing at a time, when told to."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ddetect_probe
import pytest
from ddetect_probe import lane, page, state
from ddetect_probe.hooks.torch import call_hooks, loader_hooks, p2p_hooks, step_hooks

from tests.unit.probe.conftest import Actor
from tests.unit.stacks.targets import until

before_step, after_step = step_hooks.make_hooks(lambda: False)


def step_here() -> None:
    before_step(None, (), {})
    after_step(None, (), {})


def step_in(actor: Actor) -> None:
    """One optimizer step, as the torch hooks do it."""
    actor(step_here)


def told(seen: page.Page) -> tuple[int, int]:
    """The kernel's number of the lane's thread, and its phase."""
    (row,) = seen.lanes()
    return row.tid, row.phase


def ticks(number: int = 2) -> None:
    for _ in range(number):
        lane.arbitrate()


def test_lane_is_the_main_threads_before_anybody_did_anything(seen: page.Page) -> None:
    """A job that only ever ran in its main thread has that one."""
    (row,) = seen.lanes()

    assert (row.ident, row.tid, row.phase) == (threading.main_thread().ident, os.getpid(), page.STARTING)


def test_thread_that_trains_takes_the_lane_at_once(seen: page.Page, actor: Actor) -> None:
    """The main thread serves an event loop; what the other is in is what the rank is in."""
    token = actor(lane.enter_phase, page.DATA)
    inside = told(seen)
    actor(lane.leave_phase, token)

    assert (inside, told(seen)) == ((actor.tid, page.DATA), (actor.tid, page.OTHER))
    assert (seen.lanes()[0].ident, lane.others[state.main].phase) == (actor.ident, page.STARTING)


def test_prefetch_thread_leaves_the_lane_to_the_one_that_steps(seen: page.Page, actor: Actor) -> None:
    """It loads while the main thread computes: that is no wait of the rank."""
    step_here()
    token = actor(lane.enter_phase, page.DATA)
    ticks(1)
    lane.leave_phase(lane.enter_phase(page.COLLECTIVE))
    ticks(1)  # it has moved since
    actor(lane.leave_phase, token)
    ticks(3)

    assert told(seen)[0] == os.getpid()


def test_prefetch_thread_that_is_waited_for_gets_the_lane_with_the_time_it_entered(
    seen: page.Page, actor: Actor
) -> None:
    """The main thread stands in queue.get(): the rank is loading data, and has been since the load began."""
    step_here()
    ticks(1)
    actor(lane.enter_phase, page.DATA)
    entered = lane.others[actor.ident].since_ns
    ticks(2)

    assert told(seen) == (actor.tid, page.DATA)
    assert seen.lanes()[0].since_ns == entered & ~0xFF


def test_stepping_thread_takes_the_lane_back_and_the_loser_does_not_write_it(
    seen: page.Page, actor: Actor
) -> None:
    """Tokens outlive a change of owner: who lost the lane leaves without a trace, who got it is the owner again."""
    step_here()
    loading = actor(lane.enter_phase, page.DATA)
    ticks(3)
    assert told(seen) == (actor.tid, page.DATA)

    calling = lane.enter_phase(page.COLLECTIVE)
    assert told(seen) == (os.getpid(), page.COLLECTIVE)
    actor(lane.leave_phase, loading)
    assert told(seen) == (os.getpid(), page.COLLECTIVE)
    lane.leave_phase(calling)

    assert (told(seen), state.floor) == ((os.getpid(), page.OTHER), 0)


def test_owners_token_of_a_lost_lane_writes_nothing(seen: page.Page, actor: Actor, other: Actor) -> None:
    """It was given while its thread owned the lane, so its number looks like any other."""
    step_in(actor)
    loading = other(lane.enter_phase, page.DATA)
    ticks(3)
    assert told(seen) == (other.tid, page.DATA)
    inner = other(lane.enter_phase, page.P2P)
    assert (inner, told(seen)) == (page.DATA, (other.tid, page.P2P))

    actor(lane.enter_phase, page.COLLECTIVE)
    other(lane.leave_phase, inner)
    assert told(seen) == (actor.tid, page.COLLECTIVE)
    assert lane.others[other.ident].phase == page.DATA
    other(lane.leave_phase, loading)

    assert (told(seen), lane.others[other.ident].phase) == ((actor.tid, page.COLLECTIVE), page.OTHER)
    assert state.floor == 0


def test_checkpoint_thread_in_a_collective_does_not_hide_the_training_thread(
    seen: page.Page, actor: Actor
) -> None:
    """Both are inside: the lane is of the one that does the steps."""
    step_here()
    actor(lane.enter_phase, page.COLLECTIVE)
    lane.enter_phase(page.DATA)
    ticks(3)

    assert told(seen) == (os.getpid(), page.DATA)


def test_collective_comes_before_a_load_when_nobody_steps(seen: page.Page, actor: Actor) -> None:
    """A loader thread that was first does not hide what the others of the group wait for."""
    actor(lane.enter_phase, page.DATA)
    assert told(seen) == (actor.tid, page.DATA)

    lane.enter_phase(page.COLLECTIVE)

    assert told(seen) == (os.getpid(), page.COLLECTIVE)


def test_nested_phases_of_another_thread_end_where_they_began(seen: page.Page, actor: Actor) -> None:
    """A collective within a load ends in the load, also when the lane changes hands in between."""
    step_here()
    load = actor(lane.enter_phase, page.DATA)
    call = actor(lane.enter_phase, page.COLLECTIVE)
    ticks(3)
    assert told(seen) == (actor.tid, page.COLLECTIVE)

    actor(lane.leave_phase, call)
    between = told(seen)
    actor(lane.leave_phase, load)

    assert (between, told(seen)) == ((actor.tid, page.DATA), (actor.tid, page.OTHER))


def test_stuck_step_loop_keeps_the_lane_from_a_prefetcher_that_is_done(seen: page.Page, actor: Actor) -> None:
    """The main thread hangs in the user's code; the other loaded last, and now waits for room in its queue."""
    step_here()
    loading = actor(lane.enter_phase, page.DATA)
    ticks(3)
    actor(lane.leave_phase, loading)
    assert told(seen)[0] == actor.tid

    ticks(2)

    assert told(seen) == (os.getpid(), page.OTHER)


def test_thread_that_did_steps_long_ago_gives_the_lane_to_who_is_busy_since(
    seen: page.Page, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation runs in a thread after the main one has trained: its hang is its own."""
    monkeypatch.setattr(lane, "FADES_NS", 0)
    step_here()
    actor(lane.leave_phase, actor(lane.enter_phase, page.DATA))
    ticks(2)

    assert told(seen) == (actor.tid, page.OTHER)


def test_step_of_a_pool_goes_to_the_thread_that_does_it(seen: page.Page, actor: Actor) -> None:
    """asyncio's executor gives each step to any of its threads: the one that idles there trains no more."""
    with ThreadPoolExecutor(1) as pool:
        tid = pool.submit(threading.get_native_id).result()
        pool.submit(step_here).result()
        assert told(seen)[0] == tid
        until(lambda: lane._idles(state.owner))
        actor(lane.leave_phase, actor(lane.enter_phase, page.DATA))

        ticks(2)

        assert told(seen) == (actor.tid, page.OTHER)


def test_two_threads_that_step_have_the_lane_in_turn(seen: page.Page, actor: Actor, other: Actor) -> None:
    """Two optimizers in two threads: the last step counts."""
    step_in(actor)
    first = told(seen)[0]
    step_in(other)

    assert (first, told(seen)[0]) == (actor.tid, other.tid)


def test_threads_that_come_and_go_leave_nothing_behind(seen: page.Page) -> None:
    """A thread per batch must not fill our memory, nor keep the lane when it is gone."""
    step_here()
    for _ in range(20):
        loads = Actor()
        loads(lane.leave_phase, loads(lane.enter_phase, page.DATA))
        loads.end()

    ticks(2)

    assert (lane.others, told(seen)[0]) == ({}, os.getpid())


def test_lane_of_a_thread_that_ended_is_the_main_threads_again(seen: page.Page) -> None:
    """Its number would be nobody's."""
    trains = Actor()
    step_in(trains)
    assert told(seen)[0] == trains.tid
    trains.end()

    ticks(1)

    assert told(seen)[0] == os.getpid()


def test_thread_that_died_in_a_step_does_not_stay_inside(seen: page.Page) -> None:
    """An optimizer that raises never says that its step has ended."""
    trains = Actor()
    trains(lane.enter_step)
    assert told(seen) == (trains.tid, page.OPTIMIZER)
    trains.end()

    ticks(2)

    assert (told(seen)[0], lane._astray, state.floor) == (os.getpid(), set(), 0)


def test_ident_that_is_used_again_gets_the_new_threads_number(seen: page.Page, actor: Actor) -> None:
    """Python gives the ident of a dead thread to the next one; the kernel does not."""
    actor(lane.enter_phase, page.DATA)
    page.pack_pair(state.raw, lane._THREAD_AT, actor.ident, 1)
    lane._own.tid = 1  # never a thread of ours

    ticks(1)

    assert told(seen) == (actor.tid, page.DATA)


def test_thread_with_the_ident_of_a_dead_one_is_another_thread(seen: page.Page, actor: Actor) -> None:
    """What is remembered of the dead one, its number above all, is not the new one's."""
    dead = lane.others[actor.ident] = lane.KnownThread(1)
    dead.stepped, dead.phase = True, page.DATA

    token = actor(lane.enter_phase, page.COLLECTIVE)

    assert (token, told(seen)) == (page.OTHER, (actor.tid, page.COLLECTIVE))


def test_main_thread_that_ends_while_another_trains_is_no_exit(seen: page.Page) -> None:
    """Python waits for the other one; when that is done too, the process is on its way out."""
    done = threading.Event()
    trains = threading.Thread(target=lambda: (step_here(), done.wait(60)))
    trains.start()
    until(lambda: state.owner == trains.ident)

    lane.main_ends()
    at_once = told(seen)
    ticks(2)
    during = told(seen)
    done.set()
    trains.join()
    until(lambda: not os.path.exists(f"/proc/self/task/{trains.native_id}"))
    ticks(1)

    assert (at_once, during) == ((trains.native_id, page.OTHER),) * 2
    assert told(seen) == (os.getpid(), page.EXITING)


def test_main_thread_that_trained_ends_over_its_prefetcher(seen: page.Page) -> None:
    """A helper that Python waits for holds up the exit; the rank leaves all the same."""
    step_here()
    done = threading.Event()

    def load() -> None:
        lane.enter_phase(page.DATA)
        done.wait(60)

    loads = threading.Thread(target=load)
    loads.start()
    until(lambda: lane.others)
    ticks(3)
    assert told(seen)[0] == loads.native_id

    lane.main_ends()

    assert told(seen) == (os.getpid(), page.EXITING)
    done.set()
    loads.join()


def test_daemon_thread_does_not_hold_up_the_end(seen: page.Page, actor: Actor) -> None:
    """Python does not wait for it, so the process is leaving."""
    step_in(actor)

    lane.main_ends()

    assert told(seen) == (os.getpid(), page.EXITING)


def test_exception_in_the_main_thread_marks_the_exit_until_the_other_moves(seen: page.Page) -> None:
    """What ends the process was raised; a thread that goes on training shows again with what it does next."""
    done, go = threading.Event(), threading.Event()

    def train() -> None:
        step_here()
        go.wait(60)
        lane.enter_phase(page.COLLECTIVE)
        done.wait(60)

    trains = threading.Thread(target=train)
    trains.start()
    until(lambda: state.owner == trains.ident)

    lane.main_ends(raised=True)
    marked = told(seen)
    go.set()
    until(lambda: state.owner == trains.ident)

    assert (marked, told(seen)) == ((os.getpid(), page.EXITING), (trains.native_id, page.COLLECTIVE))
    done.set()
    trains.join()


def test_pause_and_step_count_from_any_thread(seen: page.Page, actor: Actor, other: Actor) -> None:
    """What the user says about the loop is said where the loop is."""
    actor(ddetect_probe.step)
    (stepped,) = seen.lanes()
    paused = ddetect_probe.pause("eval")
    other(paused.__enter__)
    ticks(3)
    inside = told(seen)
    other(paused.__exit__)

    assert (stepped.steps, stepped.tid) == (1, actor.tid)
    assert (inside, told(seen)) == ((other.tid, page.PAUSED), (other.tid, page.OTHER))


@pytest.mark.parametrize(
    ("enter", "leave", "phase"),
    [
        (loader_hooks.enter_next, loader_hooks.leave_next, page.DATA),
        (call_hooks.enter_call, call_hooks.leave_call, page.COLLECTIVE),
        (lambda: p2p_hooks._open_row(page.SEND, FakeKnown(), 1, 0, page.P2P), p2p_hooks.leave_p2p, page.P2P),
        (lambda: p2p_hooks._begin(len, [], None), lambda waiting: waiting.__del__(), page.COLLECTIVE),
    ],
    ids=["load", "collective", "send", "wait"],
)
def test_every_hook_survives_a_change_of_owner_on_either_side(
    seen: page.Page, actor: Actor, enter: Any, leave: Any, phase: int
) -> None:
    """A thread that got the lane in between writes it when it leaves, one that lost it does not."""
    step_here()
    gets = actor(enter)
    ticks(3)
    got = told(seen)
    actor(leave, gets)
    left = told(seen)
    loses = actor(enter)
    mine = lane.enter_phase(page.COLLECTIVE)
    actor(leave, loses)
    kept = told(seen)
    lane.leave_phase(mine)

    assert (got, left, kept) == ((actor.tid, phase), (actor.tid, page.OTHER), (os.getpid(), page.COLLECTIVE))
    assert (state.floor, lane.others[actor.ident].phase) == (0, page.OTHER)


class FakeKnown:
    """A process group that only has a number."""

    number = 0


def test_threads_that_race_for_the_lane_leave_it_as_it_was(seen: page.Page) -> None:
    """Loads, calls and steps of many threads, the tick in between: no exception, no entry, no token left."""
    errors: list[BaseException] = []

    def hammer(number: int) -> None:
        try:
            for turn in range(300):
                load = loader_hooks.enter_next()
                call = call_hooks.enter_call()
                if turn % 50 == number:
                    step_here()
                call_hooks.leave_call(call)
                loader_hooks.leave_next(load)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=hammer, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            ticks(1)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    until(lambda: not any(os.path.exists(f"/proc/self/task/{thread.native_id}") for thread in threads))
    ticks(3)
    for _ in range(50):  # an ident that was used again is found out tick by tick
        if lane.others:
            ticks(1)

    assert (errors, lane.others, state.floor, told(seen)[0]) == ([], {}, 0, os.getpid())


def test_prefetcher_does_not_keep_the_lane_of_a_loop_without_steps(seen: page.Page, actor: Actor) -> None:
    """Evaluation has no optimizer: who calls the others trains, however late the other one has loaded."""
    for _ in range(2):
        lane.leave_phase(lane.enter_phase(page.COLLECTIVE))
        actor(lambda: lane.leave_phase(lane.enter_phase(page.DATA)))
    for _ in range(3):
        lane.arbitrate()

    assert (state.owner, seen.lanes()[0].tid) == (state.main, os.getpid())
