"""Three looks at a working job are not a hang."""

from __future__ import annotations

from ddetect.attach.once import unless_moving
from ddetect.attach.still import Stillness
from ddetect.correlate.judge import judge
from ddetect.frameworks.torch import TORCH
from ddetect.model import Look, Status
from tests.unit.correlate.scenes import DOINGS, scene
from tests.unit.correlate.test_motion import with_child


def moving(*ranks):
    still = Stillness(TORCH)
    still.why = dict.fromkeys(ranks, "the stack changes")
    return still


STUCK = scene(all_reduce=[0, 1, 3], asleep=[2])


def test_hang_of_ranks_that_stand_still_is_said():
    """Nobody moved: the verdict stands."""
    verdict = judge(STUCK)

    assert unless_moving(verdict, moving(), STUCK) is verdict


def test_culprit_that_moves_makes_it_healthy():
    """It was met between two steps."""
    verdict = unless_moving(judge(STUCK), moving(2), STUCK)

    assert (verdict.status, verdict.culprits) == (Status.HEALTHY, ())
    assert "the stack changes on rank 2" in verdict.summary


def test_waiting_ranks_that_move_make_it_healthy():
    """Whoever waits and moves does not wait any more."""
    assert unless_moving(judge(STUCK), moving(0), STUCK).status is Status.HEALTHY


def test_stopped_process_is_said_whatever_moves():
    """The kernel's word needs no second look."""
    stopped = scene(all_reduce=[0, 1, 3], stopped=[2])

    assert unless_moving(judge(stopped), moving(0, 1), stopped).status is Status.HANG


def test_last_rank_that_moves_makes_the_end_of_a_job_healthy():
    """The others are on their way out, nobody waits for them, rank 0 exports."""
    ending = scene(spinning=[0], exiting=[1, 2, 3])

    assert unless_moving(judge(ending), moving(), ending).status is Status.HANG
    assert unless_moving(judge(ending), moving(0), ending).status is Status.HEALTHY


def test_child_that_writes_beside_a_sleeping_rank_is_told_and_acquits_nobody():
    """It may be a metrics daemon: three looks cannot tell, so the suspicion stays, less sure."""
    still, snapshot = Stillness(TORCH), with_child(DOINGS["asleep"].look)
    for number, sample in enumerate(snapshot.samples):
        still.see(Look(sample), 10.0 + number)

    verdict = unless_moving(judge(snapshot), still, snapshot)

    assert (verdict.status, verdict.culprit_ranks) == (Status.HANG, (1,))
    assert "something still moves: a child process reads or writes on rank 1" in verdict.evidence
