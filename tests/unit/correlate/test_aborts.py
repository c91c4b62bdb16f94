"""SIGABRT: inside an operation it is a peer's doing, outside it is a crash; and what is said of an end nobody saw."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from ddetect.correlate import confidence
from ddetect.correlate.judge import judge
from ddetect.model import (
    UNKNOWN,
    Cause,
    Departure,
    Frame,
    Gone,
    LastCall,
    Look,
    Proof,
    Snapshot,
    Status,
    Verdict,
)
from tests.unit.correlate.scenes import C10D, SITE, died, frames, scene

RAISED, VANISHED = Departure.RAISED, Departure.VANISHED
CLOSED = "RuntimeError: [pair.cc:534] Connection closed by peer [192.168.1.64]:4711"
TIMED_OUT = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
DOES_NOT_FIT = (
    "gloo::EnforceNotMet: [enforce fail at /gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 2048 vs "
    "128. Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
)
WATCHDOG = (
    "c10::DistBackendError: [PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"
)
LINE = Frame("average", "/job/train.py", 17)


def call(
    elements: int = 256, *, inside: bool = True, op: str = "all_reduce", seq: int = 21, **more: object
) -> LastCall:
    values: dict[str, object] = {
        "backend": "gloo",
        "group": "0",
        "label": "default_pg",
        "size": 4,
        "reduce_op": "SUM",
    }
    return LastCall(inside=inside, op=op, seq=seq, elements=elements, **{**values, **more})  # type: ignore[arg-type]


def aborted(rank: int, last: LastCall | None, *, age_s: float = 5.0, **more: object) -> Gone:
    gone = died(rank, VANISHED, age_s=age_s)
    return replace(gone, signal=int(signal.SIGABRT), last_call=last, **more)  # type: ignore[arg-type]


def lost(rank: int, last: LastCall | None, *, age_s: float = 5.0) -> Gone:
    """A rank that lost its connection to one that was aborted."""
    return replace(died(rank, RAISED, age_s=age_s, exception=CLOSED, where=LINE), last_call=last)


def ended(rank: int, *, age_s: float = 4.9, last: LastCall | None = None) -> Gone:
    return replace(died(rank, VANISHED, age_s=age_s), signal=int(signal.SIGTERM), last_call=last)


def verdict_on(*gone: Gone, looks: tuple[Look, ...] = ()) -> Verdict:
    snapshot = Snapshot(world_size=4, gone=gone, looks=looks)
    return judge(snapshot)


def told(verdict: Verdict) -> tuple[Status, Cause | None, tuple[int, ...]]:
    return verdict.status, verdict.cause, verdict.culprit_ranks


def test_sender_of_too_much_is_named_and_not_the_receiver_that_was_aborted() -> None:
    """Pages tell the size of each rank's tensor at the same number: the fewer differ."""
    verdict = verdict_on(
        lost(0, call(inside=False)),
        aborted(1, call()),
        lost(2, call(4096, inside=False), age_s=5.1),
        ended(3, last=call()),
    )

    assert told(verdict) == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH, (2,))
    assert verdict.proof is Proof.STRUCTURAL
    assert verdict.culprits[0].where is not None
    assert verdict.summary == (
        "ranks disagree on the shape of all_reduce #21 of default_pg: rank 2 called all_reduce([[4096]] SUM) in "
        "train.py:17 average; ranks 0-1,3 called all_reduce([[256]] SUM) in train.py:17 average; rank 1 was aborted "
        "inside all_reduce #21 of default_pg"
    )


@pytest.mark.parametrize("number", range(4))
def test_whoever_differs_is_named_whatever_its_number(number: int) -> None:
    """No rank is the norm, and the receiver is another than the one that differs."""
    victim = (number + 1) % 4
    deaths = [
        aborted(rank, call())
        if rank == victim
        else lost(rank, call(4096 if rank == number else 256, inside=False))
        for rank in range(4)
    ]

    assert verdict_on(*deaths).culprit_ranks == (number,)


def test_nobody_is_named_where_nobody_tells_what_was_called() -> None:
    """An abort inside an operation is suspected to be a mismatch; with modest confidence, and of nobody."""
    verdict = verdict_on(lost(0, None), aborted(1, LastCall(inside=True)), lost(2, None), ended(3))

    assert told(verdict) == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH, ())
    assert (verdict.proof, verdict.confidence < 0.5) == (Proof.TIME, True)
    assert "rank 1 was aborted inside torch.distributed" in verdict.summary
    assert "dmesg" not in " ".join(verdict.advice)


def test_its_own_word_makes_the_suspicion_stronger() -> None:
    """gloo says itself that sizes differ, on stderr."""
    bare = verdict_on(aborted(1, call()))
    said = verdict_on(aborted(1, call(), exception=DOES_NOT_FIT, stderr=("what(): ...",)))

    assert told(bare) == told(said) == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH, ())
    assert said.confidence > bare.confidence
    assert "stderr of rank 1: what(): ..." in said.evidence


def test_abort_between_two_calls_is_one_of_a_mismatch_when_it_says_so() -> None:
    """An asynchronous call is awaited later: the page shows nothing, stderr does."""
    last = call(inside=False)

    verdict = verdict_on(aborted(1, last, exception=DOES_NOT_FIT), lost(0, call(9, inside=False)))

    assert told(verdict)[:2] == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH)
    assert 1 not in verdict.culprit_ranks


def test_of_too_many_untold_nobody_is_named() -> None:
    """Two tell, and two of four do not: the one that differs may be of the many."""
    verdict = verdict_on(aborted(1, call()), lost(2, call(4096, inside=False)))

    assert told(verdict) == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH, ())
    assert "rank 2 called all_reduce([[4096]] SUM)" in verdict.summary


def test_calls_of_another_number_tell_nothing() -> None:
    """A rank that died at another call is on no side."""
    verdict = verdict_on(
        aborted(1, call()),
        lost(0, call(inside=False)),
        lost(2, call(9, seq=20, inside=False)),
        ended(3, last=call()),
    )

    assert verdict.culprit_ranks == ()


def test_recorders_of_those_that_live_tell_their_side() -> None:
    """A page goes with its process into a death; who hangs on is read like in any other look."""
    living = scene(world=4, all_reduce=[0, 2, 3], gone=[aborted(1, call(4096, seq=412))], seq=412)

    verdict = judge(living)

    assert told(verdict) == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH, (1,))


def test_last_looks_tell_in_which_call_a_rank_without_a_page_was() -> None:
    """The recorder showed it open before the abort."""
    before = scene(world=4, all_reduce=[0, 1, 2, 3], seq=412)

    verdict = judge(replace(before, gone=(aborted(1, None), lost(0, None), lost(2, None), lost(3, None))))

    assert told(verdict)[:2] == (Status.STOPPED, Cause.COLLECTIVE_MISMATCH)
    assert "aborted inside all_reduce #412 of default_pg" in verdict.summary
    assert 1 not in verdict.culprit_ranks


@pytest.mark.parametrize(
    ("lines", "below", "inside"),
    [
        ((f"all_gather {C10D}:2810", "average /job/train.py:17"), True, "all_gather"),
        (
            (f"_engine_run_backward {SITE}/torch/autograd/graph.py:800", "train /job/train.py:9"),
            True,
            "backward",
        ),
        ((f"_engine_run_backward {SITE}/torch/autograd/graph.py:800", "train /job/train.py:9"), False, ""),
        (("train /job/train.py:9",), True, ""),
    ],
)
def test_stack_of_the_end_tells_in_which_call_it_was(
    lines: tuple[str, ...], below: bool, inside: str
) -> None:
    """DDP's calls are not on the page. Who aborts in its own backward, or at its own line, has crashed."""
    verdict = verdict_on(aborted(1, None, stack=frames(*lines), below=below), lost(0, None))

    expected = (Cause.COLLECTIVE_MISMATCH, ()) if inside else (Cause.KILLED_BY_SIGNAL, (1,))
    assert (verdict.cause, verdict.culprit_ranks) == expected
    assert inside in verdict.summary


@pytest.mark.parametrize(
    "gone",
    [
        aborted(1, call(inside=False)),
        aborted(1, None),
        aborted(1, call(), exception="free(): invalid pointer"),
        aborted(1, call(), exception="c10::Error: CUDA error: an illegal memory access was encountered"),
        replace(aborted(1, call()), signal=int(signal.SIGSEGV)),
        replace(aborted(1, call()), signal=int(signal.SIGKILL)),
    ],
)
def test_real_crash_stays_the_fault_of_its_rank(gone: Gone) -> None:
    """Outside a call, by its own word, or by another signal; the others died of it."""
    verdict = verdict_on(gone, lost(0, call(inside=False)), lost(2, call(inside=False)), ended(3))

    assert told(verdict) == (Status.STOPPED, Cause.KILLED_BY_SIGNAL, (1,))
    assert verdict.confidence == confidence.DEAD


def test_abort_is_a_consequence_where_another_died_of_its_own_fault() -> None:
    """Somebody raised: then it does not matter what became of the others."""
    verdict = verdict_on(aborted(1, call()), died(2, RAISED, exception="ValueError: bad shard", where=LINE))

    assert told(verdict) == (Status.STOPPED, Cause.PYTHON_EXCEPTION, (2,))


def test_watchdogs_abort_is_no_mismatch_and_names_no_victim() -> None:
    """NCCL's watchdog aborts who waited for too long."""
    nccl = call(backend="nccl")
    silent = verdict_on(*(aborted(rank, nccl) for rank in range(4)))
    said = verdict_on(
        *(aborted(rank, call(inside=False, backend="nccl"), exception=WATCHDOG) for rank in range(4))
    )

    assert told(silent) == told(said) == (Status.STOPPED, None, ())


def test_living_culprit_is_named_beside_watchdogs_aborts() -> None:
    """The others were aborted while one sleeps."""
    deaths = [aborted(rank, None, exception=WATCHDOG) for rank in (0, 1, 3)]

    verdict = judge(scene(world=4, asleep=[2], gone=deaths))

    assert told(verdict) == (Status.STOPPED, Cause.USER_CODE, (2,))


# ---------------------------------------------------------------- how a process ended, as far as it was seen


def test_exit_code_is_told_as_one_and_not_as_a_signal() -> None:
    """os._exit(3) raises nothing, and nobody killed it."""
    for gone in (
        replace(died(2, VANISHED), code=3),
        replace(died(2, RAISED, exception="SystemExit: 3"), code=3),
    ):
        verdict = verdict_on(gone, lost(0, None))

        assert told(verdict) == (Status.STOPPED, Cause.PYTHON_EXCEPTION, (2,))
        assert verdict.summary.startswith("rank 2 exited with code 3 without an exception")
        assert verdict.culprits[0].doing == "exited with code 3 without an exception"
        assert "code 3" in verdict.advice[0]


def test_exit_code_beside_an_exception_changes_nothing() -> None:
    """What was raised says more."""
    verdict = verdict_on(replace(died(2, RAISED, exception="ValueError: bad shard"), code=1))

    assert verdict.summary.startswith("rank 2 raised ValueError: bad shard")


def test_end_that_nobody_saw_is_said_as_that() -> None:
    """Neither a signal nor a code is known: who is sure, how is not."""
    verdict = verdict_on(died(2, VANISHED), lost(0, None))

    assert verdict.culprit_ranks == (2,)
    assert "vanished; its exit code was not seen" in verdict.summary
    assert verdict.confidence < 0.7
    assert "OOM" not in " ".join(verdict.advice)


@pytest.mark.parametrize("late_s", [1.0, 20.0])
def test_rank_that_vanished_after_a_peers_error_follows_from_it(late_s: float) -> None:
    """A launcher ends the rest; that its signal was not seen makes no fault of it."""
    timed_out = died(0, RAISED, age_s=30.0, exception=TIMED_OUT)

    verdict = judge(scene(world=3, asleep=[2], gone=[timed_out, died(1, VANISHED, age_s=30.0 - late_s)]))

    assert told(verdict) == (Status.STOPPED, Cause.USER_CODE, (2,))


def test_rank_that_vanished_before_its_peers_lost_it_is_the_fault() -> None:
    """They saw its connection close."""
    verdict = verdict_on(died(2, VANISHED, age_s=5.0), lost(0, None, age_s=5.2), lost(1, None, age_s=4.9))

    assert verdict.culprit_ranks == (2,)


def test_unknown_codes_are_no_exit_code() -> None:
    """UNKNOWN is not a code, and 0 is no error."""
    verdict = verdict_on(replace(died(2, VANISHED), code=UNKNOWN))

    assert "code -1" not in verdict.summary
