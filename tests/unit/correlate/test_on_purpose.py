"""Somebody wanted the job to end: nobody is named for what died of that. A fault that is clearly older stays one."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import numpy as np
import pytest

from ddetect.correlate import confidence
from ddetect.correlate.judge import judge
from ddetect.correlate.rules.consequence import origins
from ddetect.frameworks.torch import TORCH
from ddetect.model import Cause, Departure, Frame, Gone, Proof, Raised, Snapshot, Status, Verdict, Where
from tests.unit.correlate.scenes import build, died, scene

RAISED, VANISHED, EXITED = Departure.RAISED, Departure.VANISHED, Departure.EXITED
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [192.168.1.64]:4711"
TIMED_OUT = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"


def killed(rank: int, signal: int, *, age_s: float = 5.0) -> Gone:
    return replace(died(rank, VANISHED, age_s=age_s), signal=signal)


def on_its_way_out(rank: int, said: str, gone: list[Gone], *, where: Frame | None = None) -> Snapshot:
    """The rank has raised and is not gone yet; the others are."""
    builder = build(rank + 1)
    row = builder.does(rank, "exiting")
    row.look = replace(row.look, raised=Raised(said, where, fatal=True))
    builder.gone = gone
    return builder.snapshot()


def is_nobodys(verdict: Verdict) -> bool:
    return (verdict.status, verdict.cause, verdict.proof, verdict.culprits) == (
        Status.STOPPED, None, Proof.TIME, ()
    )  # fmt: skip


OURS = (
    "UnavailableError: Graph execution error:\n\nDetected at node CollectiveReduceV2\n"
    "Collective ops is aborted by: ddetect: rank 1 is in user code at train.py:42\nThe error could be from"
)

# ---------------------------------------------------------------- a wish


@pytest.mark.parametrize("other", [killed(1, 9), killed(1, 15), died(1, RAISED, exception=OURS)])
def test_exception_that_carries_our_sentence_is_an_end_that_we_asked_for(other):
    """--on-hang=stop raises the verdict in the ranks that wait, and kills the one they waited for."""
    verdict = judge(scene(world=2, gone=[died(0, RAISED, exception=OURS), other]))

    assert is_nobodys(verdict)


def test_rank_on_its_way_out_with_our_sentence_did_not_leave_early():
    """It raised what we sent it and is not gone yet."""
    assert is_nobodys(judge(on_its_way_out(0, OURS, [killed(1, 9)])))


def test_abort_that_is_not_ours_is_no_wish():
    """A framework aborts for reasons of its own, and a user may log our name."""
    for said in (
        "UnavailableError: Collective ops is aborted by: task 1 is unhealthy",
        "ValueError: ddetect: is not what I expected",
    ):
        assert judge(scene(world=2, gone=[died(0, RAISED, exception=said)])).culprit_ranks == (0,)


def test_fault_that_is_older_than_our_sentence_stays_one():
    """What died long before we ended the rest died of itself."""
    gone = [
        died(0, RAISED, exception=OURS, age_s=5.0),
        died(1, RAISED, exception="ValueError: bad", age_s=30.0),
    ]

    assert judge(scene(world=2, gone=gone)).culprit_ranks == (1,)


def test_interrupted_rank_on_its_way_out_did_not_leave_early():
    """Ctrl-C: it tears down, and its peer has lost the connection already."""
    verdict = judge(on_its_way_out(1, "KeyboardInterrupt", [died(0, RAISED, exception=CLOSED)]))

    assert is_nobodys(verdict)
    assert "the job was interrupted: somebody ended rank 1" in verdict.summary


@pytest.mark.parametrize("said", ["KeyboardInterrupt", "SignalException: Process 12 got signal: 15"])
@pytest.mark.parametrize("other", [died(1, RAISED, exception=CLOSED), killed(1, 15), killed(1, 9)])
def test_rank_that_was_asked_to_end_is_no_fault(said, other):
    """What the program was told to do it did."""
    verdict = judge(scene(world=2, gone=[died(0, RAISED, exception=said), other]))

    assert is_nobodys(verdict)
    assert any("somebody asked for it" in line for line in verdict.evidence)


@pytest.mark.parametrize("signal", [15, 9])
def test_rank_ended_a_moment_before_the_interrupt_was_noticed_is_no_fault(signal):
    """Deaths are dated when they are seen."""
    gone = [died(0, RAISED, age_s=5.0, exception="KeyboardInterrupt"), killed(1, signal, age_s=5.1)]

    assert is_nobodys(judge(scene(world=2, gone=gone)))


def test_fault_clearly_older_than_the_interrupt_stays_a_fault():
    """Somebody saw that the job was broken, and ended it."""
    gone = [
        died(0, RAISED, age_s=5.0, exception="KeyboardInterrupt"),
        died(1, RAISED, age_s=9.0, exception="ValueError: bad shard"),
    ]

    verdict = judge(scene(world=2, gone=gone))

    assert (verdict.cause, verdict.culprit_ranks) == (Cause.PYTHON_EXCEPTION, (1,))


def test_timeout_clearly_older_than_the_interrupt_leads_to_who_is_late():
    """The hang was there before somebody lost patience."""
    gone = [died(0, RAISED, age_s=5.0, exception="KeyboardInterrupt"),
            died(1, RAISED, age_s=30.0, exception=TIMED_OUT)]  # fmt: skip

    assert judge(scene(asleep=[2], gone=gone)).culprit_ranks == (2,)


def test_job_that_outlived_an_interrupt_is_judged_as_before():
    """An evaluator was interrupted long ago; today's error is today's."""
    gone = [
        died(0, RAISED, age_s=3600.0, exception="KeyboardInterrupt"),
        died(1, RAISED, exception="ValueError: bad shard"),
    ]

    assert judge(scene(all_reduce=[2], gone=gone)).culprit_ranks == (1,)


def test_ranks_killed_by_sigint_are_no_fault():
    """Without a page only the kernel tells of Ctrl-C."""
    verdict = judge(scene(world=3, gone=[killed(rank, 2) for rank in range(3)]))

    assert is_nobodys(verdict)
    assert "somebody ended ranks 0-2" in verdict.summary


# ---------------------------------------------------------------- SIGTERM to all


def test_all_ranks_ended_by_sigterm_in_one_moment_are_nobodys_fault():
    """scancel: milliseconds make no culprit."""
    verdict = judge(scene(world=4, gone=[killed(rank, 15, age_s=5 - rank * 0.001) for rank in range(4)]))

    assert is_nobodys(verdict)
    assert verdict.summary == "the job was ended by SIGTERM"


@pytest.mark.parametrize("signal", [15, 9])
def test_one_rank_killed_while_others_live_is_named(signal):
    """membership_change, rank_killed."""
    verdict = judge(scene(all_reduce=[0, 1, 3], gone=[killed(2, signal)]))

    assert (verdict.cause, verdict.culprit_ranks, verdict.proof) == (
        Cause.KILLED_BY_SIGNAL, (2,), Proof.STRUCTURAL
    )  # fmt: skip


def test_rank_ended_by_sigterm_long_before_the_others_is_named():
    """It was not one moment."""
    gone = [killed(2, 15, age_s=9.0), *(killed(rank, 15, age_s=5.0) for rank in (0, 1))]

    assert judge(scene(world=3, gone=gone)).culprit_ranks == (2,)


def test_rank_killed_before_the_launcher_ended_the_rest_is_named():
    """SIGKILL among SIGTERM."""
    gone = [killed(2, 9), *(killed(rank, 15, age_s=4.9) for rank in (0, 1))]

    assert judge(scene(world=3, gone=gone)).culprit_ranks == (2,)


# ---------------------------------------------------------------- raised, and not gone yet


def test_rank_that_raised_and_is_still_on_its_way_out_is_named_with_its_error():
    """Its peers die of the closed connection before it is gone: it did not leave early."""
    gone = [died(rank, RAISED, exception=CLOSED) for rank in (0, 1)]
    line = Frame("parse", "/job/data.py", 12)

    verdict = judge(on_its_way_out(2, "ValueError: bad shard", gone, where=line))

    assert (verdict.status, verdict.cause, verdict.proof) == (
        Status.STOPPED, Cause.PYTHON_EXCEPTION, Proof.STRUCTURAL
    )  # fmt: skip
    assert (verdict.culprit_ranks, verdict.culprits[0].where) == ((2,), Where("parse", "data.py", 12))
    assert "rank 2 raised ValueError: bad shard" in verdict.summary


def test_victim_on_its_way_out_did_not_leave_early():
    """What it raised is a consequence itself."""
    verdict = judge(on_its_way_out(1, CLOSED, [died(0, RAISED, exception=CLOSED)]))

    assert (verdict.proof, verdict.cause) != (Proof.STRUCTURAL, Cause.LEFT_EARLY)


def test_rank_that_exited_lends_no_confidence_to_one_that_lives():
    """Both are named, as surely as the one that still lives."""
    gone = [died(2, EXITED, age_s=6.0), died(0, RAISED, exception=CLOSED), died(1, RAISED, exception=CLOSED)]

    alone = judge(scene(world=3, gone=gone))
    beside = judge(scene(exiting=[3], gone=gone))

    assert (alone.culprit_ranks, alone.confidence) == ((2,), confidence.LEFT_EARLY)
    assert beside.culprit_ranks == (2, 3)
    assert beside.confidence <= confidence.DEAD / 2


# ---------------------------------------------------------------- a living rank beside deaths


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (TIMED_OUT, "; rank 3 timed out"),
        (CLOSED, "; rank 3 raised RuntimeError: [pair.cc:534] Connection closed"),
    ],
    ids=["timed out", "closed"],
)
def test_verdict_about_a_living_rank_says_who_died(said, words):
    """The job has stopped because rank 3 died: a reader must find that."""
    verdict = judge(scene(all_reduce=[0, 1], asleep=[2], gone=[died(3, RAISED, exception=said)]))

    assert (verdict.status, verdict.culprit_ranks) == (Status.STOPPED, (2,))
    assert words in verdict.summary
    assert any(line.startswith("rank 3 (pid 4030) raised") for line in verdict.evidence)


# ---------------------------------------------------------------- many


@pytest.mark.parametrize("alike", [True, False], ids=["one text", "each its own text"])
def test_ten_thousand_deaths_are_sorted_out_in_one_pass(alike):
    """Half of them raised, half got SIGTERM before, which nothing excuses; ports make every text another."""
    count = 10_000
    gone = [
        died(rank, RAISED, age_s=5.0, exception=CLOSED if alike else f"{CLOSED}{rank}")
        if rank % 2
        else killed(rank, 15, age_s=9.0)
        for rank in np.random.default_rng(1).permutation(count).tolist()
    ]

    began = process_time()
    first = origins(gone, TORCH)

    assert {gone.rank % 2 for gone in first} == {0}
    assert process_time() - began < 1.0
