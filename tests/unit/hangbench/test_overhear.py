from __future__ import annotations

from tests.hangbench.tools.overhear import Answer, last_move_before, said_since


def test_the_final_answer_counts_from_its_last_change() -> None:
    """Saying it, taking it back and saying it again is not knowing it from the first time."""
    said = [(1.0, Answer(culprits=(1,))), (2.0, Answer(culprits=(2,))), (3.0, Answer(culprits=(1,)))]
    assert said_since([*said, (4.0, Answer(culprits=(1,)))]) == 3.0
    assert said_since([*said, (4.0, Answer(culprits=(1,), cause="user_code"))]) == 4.0


def test_ranks_that_raise_are_not_taken_for_progress() -> None:
    looks = [(float(second), 10.0) for second in range(10, 31)]
    assert last_move_before([*looks, (30.2, 30.1)], 30.2) == 10.0


def test_an_alarm_right_after_progress_counts_from_it() -> None:
    assert last_move_before([(9.0, 8.9), (10.0, 9.9), (10.1, 10.0)], 10.1) == 10.0


def test_a_job_that_never_moved_has_no_last_move() -> None:
    assert last_move_before([(1.0, None), (2.0, None)], 2.0) is None
