from __future__ import annotations

from tests.hangbench.tools.overhear import last_move_before


def test_ranks_that_raise_are_not_taken_for_progress() -> None:
    looks = [(float(second), 10.0) for second in range(10, 31)]
    assert last_move_before([*looks, (30.2, 30.1)], 30.2) == 10.0


def test_an_alarm_right_after_progress_counts_from_it() -> None:
    assert last_move_before([(9.0, 8.9), (10.0, 9.9), (10.1, 10.0)], 10.1) == 10.0


def test_a_job_that_never_moved_has_no_last_move() -> None:
    assert last_move_before([(1.0, None), (2.0, None)], 2.0) is None
