"""Recorded hangs with evidence taken away: less may be said, or with less confidence, but never somebody else's name.

Each rank of each recording loses its stack, its recorder, its page, and every combination of the three; every two ranks
lose one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from ddetect.correlate.judge import judge
from ddetect.model import Snapshot, Status
from tests.replay.recordings import Recording, recordings
from tests.unit.correlate.scenes import relabel, without_page, without_progress, without_stack

Loss = Callable[[Snapshot, int], Snapshot]
LOSSES: tuple[Loss, ...] = (without_stack, without_progress, without_page)
SURE = 0.9


def losses(snapshot: Snapshot) -> Iterator[tuple[tuple[int, ...], str, Snapshot]]:
    """One rank with every combination of losses, two ranks with every single one: who, what, what is left."""
    ranks = sorted(set(snapshot.roster.rank.tolist()))
    for rank in ranks:
        for lost in (some for count in (1, 2, 3) for some in combinations(LOSSES, count)):
            yield (rank,), *_lose(snapshot, (rank,), lost)
    for pair in combinations(ranks, 2):
        for one in LOSSES:
            yield pair, *_lose(snapshot, pair, (one,))


def _lose(snapshot: Snapshot, ranks: tuple[int, ...], lost: tuple[Loss, ...]) -> tuple[str, Snapshot]:
    for rank in ranks:
        for lose in lost:
            snapshot = lose(snapshot, rank)
    return ", ".join(lose.__name__ for lose in lost), snapshot


def test_less_evidence_never_names_somebody_else_and_confidence_is_earned() -> None:
    """A wrong culprit is worse than undecided; what is said with 0.9 or more is right in 95 of 100 cases."""
    judged, sure, strangers, surer = 0, list[bool](), list[object](), list[object]()
    for recording in [*recordings(alone=False), *recordings(alone=True)]:
        snapshot = recording.snapshot()
        # Without the probe the full evidence may have named too many already; taking some away must not add to them.
        full = judge(snapshot)
        allowed = {*recording.culprits, *full.culprit_ranks}
        for ranks, lost, less in losses(snapshot):
            verdict = judge(less)
            judged += 1
            if not set(verdict.culprit_ranks) <= allowed:
                strangers.append((recording.name, recording.params, ranks, lost, verdict.summary))
            if verdict.status is not Status.UNDECIDED and verdict.confidence > full.confidence:
                surer.append(
                    (recording.name, full.confidence, ranks, lost, verdict.confidence, verdict.summary)
                )
            if verdict.confidence >= SURE:
                sure.append(recording.is_truth(verdict))

    assert strangers == []
    assert surer == []
    assert judged > 3000
    assert len(sure) > 200
    assert sum(sure) >= 0.95 * len(sure), f"{sum(sure)} of {len(sure)} sure verdicts are right"


@pytest.mark.parametrize("recording", recordings(alone=False), ids=lambda recording: recording.name)
def test_renumbered_ranks_get_the_same_verdict_with_other_numbers(recording: Recording) -> None:
    """No rank is the norm in a real job either."""
    snapshot = recording.snapshot()
    order = [*range(1, snapshot.world_size), 0]

    before, after = judge(snapshot), judge(relabel(snapshot, order))

    assert (after.status, after.cause, after.proof) == (before.status, before.cause, before.proof)
    assert after.culprit_ranks == tuple(sorted(order[rank] for rank in before.culprit_ranks))
