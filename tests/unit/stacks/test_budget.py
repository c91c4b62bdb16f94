"""Pauses for native stacks: together below two seconds in ten, and a dump that failed rests."""

from __future__ import annotations

import pytest

from ddetect.stacks.budget import MOST_S, WINDOW_S, PauseBudget


def test_first_dump_may_take_all_of_it():
    """Nobody has paused it yet."""
    assert PauseBudget().allowed_s("p", 0.0) == MOST_S


def test_second_dump_has_to_wait_until_the_first_is_forgotten():
    """1.4 s leave too little for another; ten seconds later all is there again."""
    budget = PauseBudget()
    budget.note("p", 100.0, 1.4, failed=False)

    assert budget.allowed_s("p", 101.0) == 0.0
    assert budget.allowed_s("p", 100.0 + WINDOW_S) == MOST_S


def test_what_is_left_is_granted():
    """A short pause leaves time for another one, and for no more than that."""
    budget = PauseBudget()
    budget.note("p", 100.0, 0.6, failed=False)

    assert budget.allowed_s("p", 101.0) == pytest.approx(MOST_S - 0.6)


def test_processes_have_budgets_of_their_own():
    """One that was paused says nothing about its neighbour."""
    budget = PauseBudget()
    budget.note("p", 100.0, 2.0, failed=False)

    assert budget.allowed_s("q", 100.0) == MOST_S


def test_failures_are_tried_again_ever_later():
    """10 s, 20 s, 40 s: a machine that was too slow is too slow a moment later; a success forgives."""
    budget = PauseBudget()
    now, rests = 0.0, []
    for _ in range(3):
        budget.note("p", now, 0.0, failed=True)
        began = now
        while not budget.allowed_s("p", now):
            now += 1.0
        rests.append(now - began)
    budget.note("p", now, 0.1, failed=False)

    assert (rests, budget.allowed_s("p", now) > 0) == ([10.0, 20.0, 40.0], True)


def test_worst_job_is_never_paused_for_more_than_two_seconds_in_ten():
    """Whoever asks at every moment, and uses all that is granted, stays below the limit in every window."""
    budget, pauses, now = PauseBudget(), [], 0.0
    while now < 120.0:
        allowed = budget.allowed_s("p", now)
        if allowed:
            pauses.append((now, allowed))
            now += allowed
            budget.note("p", now, allowed, failed=False)
        now += 0.25

    ends = [began + took for began, took in pauses]
    within = [
        sum(took for (_, took), end in zip(pauses, ends, strict=True) if at - 10 < end <= at) for at in ends
    ]
    assert pauses
    assert max(within) <= MOST_S
