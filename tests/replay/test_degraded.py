"""Recorded hangs with evidence taken away: less may be said, or with less confidence, but never somebody else's name.

Each rank of each recording loses its stack, its recorder, its page, and every combination of the three; every two ranks
lose one of them. Each rank, and all of them, lose their C symbols, their workers' stacks, the older part of their ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from ddetect.correlate.judge import judge
from ddetect.model import Cause, Snapshot, Status, Verdict
from tests.replay.recordings import Recording, recordings
from tests.unit.correlate.scenes import (
    relabel,
    with_wrapped_ring,
    without_native,
    without_page,
    without_progress,
    without_stack,
    without_worker_stacks,
)

Loss = Callable[[Snapshot, int], Snapshot]
LOSSES: tuple[Loss, ...] = (without_stack, without_progress, without_page)
SMALLER: tuple[Loss, ...] = (with_wrapped_ring, without_worker_stacks, without_native)
SURE = 0.9
COARSER = {  # what is said of the same rank when the more telling part of the evidence is gone: not wrong, and less
    (Cause.LEFT_EARLY, Cause.USER_CODE),
    (Cause.PYTHON_EXCEPTION, Cause.LEFT_EARLY),
    (Cause.FILE_IO, Cause.DATA_LOADING),
    (Cause.PROCESS_STOPPED, Cause.DATA_LOADING),
    (Cause.COLLECTIVE_MISMATCH, Cause.ALL_ENTERED_NONE_LEFT),
    (Cause.RENDEZVOUS, Cause.USER_CODE),
}


def losses(snapshot: Snapshot) -> Iterator[tuple[tuple[int, ...], str, Snapshot]]:
    """One rank with every combination of losses, two ranks with every single one: who, what, what is left."""
    ranks = sorted(set(snapshot.roster.rank.tolist()))
    for rank in ranks:
        for lost in (some for count in (1, 2, 3) for some in combinations(LOSSES, count)):
            yield (rank,), *_lose(snapshot, (rank,), lost)
    for pair in combinations(ranks, 2):
        for one in LOSSES:
            yield pair, *_lose(snapshot, pair, (one,))
    for some in [*((rank,) for rank in ranks), tuple(ranks)]:
        for one in SMALLER:
            yield some, *_lose(snapshot, some, (one,))


def _lose(snapshot: Snapshot, ranks: tuple[int, ...], lost: tuple[Loss, ...]) -> tuple[str, Snapshot]:
    for rank in ranks:
        for lose in lost:
            snapshot = lose(snapshot, rank)
    return ", ".join(lose.__name__ for lose in lost), snapshot


def test_less_evidence_never_names_somebody_else_and_confidence_is_earned() -> None:
    """A wrong culprit is worse than undecided; what is said with 0.9 or more is right in 95 of 100 cases."""
    judged, sure, wrong = 0, list[bool](), list[object]()
    for recording in [*recordings(alone=False), *recordings(alone=True)]:
        snapshot = recording.snapshot()
        # Without the probe the full evidence may have named too many already; taking some away must not add to them.
        full = judge(snapshot)
        allowed = {*recording.culprits, *full.culprit_ranks}
        for ranks, lost, less in losses(snapshot):
            if less is snapshot:
                continue  # there was nothing of that kind to lose
            verdict = judge(less)
            judged += 1
            problem = (
                "somebody else" if not set(verdict.culprit_ranks) <= allowed else _more_than(full, verdict)
            )
            if problem:
                wrong.append((recording.name, recording.params, ranks, lost, problem, verdict.summary))
            if settled(verdict) >= SURE:
                sure.append(recording.is_truth(verdict))

    assert wrong == []
    assert judged > 3000
    assert len(sure) > 200
    assert sum(sure) >= 0.95 * len(sure), f"{sum(sure)} of {len(sure)} sure verdicts are right"


def settled(verdict: Verdict) -> float:
    """How sure it is once time has proven it: how long it has stood is the same whatever is lost."""
    return verdict.confidence if verdict.settled is None else verdict.settled


def _more_than(full: Verdict, less: Verdict) -> str:
    """What the verdict on less evidence says that the one on all of it did not."""
    if less.status is Status.UNDECIDED:
        return ""
    if settled(less) > settled(full):
        return f"surer: {settled(full)} became {settled(less)}"
    same = (less.status, less.cause) == (full.status, full.cause)
    return (
        ""
        if same or (full.cause, less.cause) in COARSER
        else f"another cause: {full.cause} became {less.cause}"
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "recording", [*recordings(alone=False), *recordings(alone=True)], ids=lambda one: one.name
)
def test_renumbered_ranks_get_the_same_verdict_with_other_numbers(
    recording: Recording, reverse: bool
) -> None:
    """No rank is the norm in a real job either."""
    snapshot = recording.snapshot()
    order = [*range(1, snapshot.world_size), 0]
    if reverse:
        order.reverse()

    before, after = judge(snapshot), judge(relabel(snapshot, order))

    assert (after.status, after.cause, after.proof, after.confidence) == (
        before.status, before.cause, before.proof, before.confidence
    )  # fmt: skip
    assert after.culprit_ranks == tuple(sorted(order[rank] for rank in before.culprit_ranks))
