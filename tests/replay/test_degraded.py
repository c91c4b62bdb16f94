"""Recorded hangs with evidence taken away: less may be said, or with less confidence, but never somebody else's name.

Each rank of each recording loses its stack, its recorder, its page, and every combination of the three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from ddetect.correlate.judge import judge
from ddetect.model import Snapshot, Verdict
from tests.replay.recordings import Recording, recordings
from tests.unit.correlate.scenes import relabel, without_page, without_progress, without_stack

LOSSES: tuple[Callable[[Snapshot, int], Snapshot], ...] = (without_stack, without_progress, without_page)
SURE = 0.9


def degraded() -> Iterator[tuple[Recording, int, str, Verdict]]:
    """Every recording with every loss: the recording, the rank, what was lost, the verdict."""
    for recording in recordings(alone=False):
        snapshot = recording.snapshot()
        for rank in sorted(set(snapshot.roster.rank.tolist())):
            for lost in (some for count in (1, 2, 3) for some in combinations(LOSSES, count)):
                less = snapshot
                for lose in lost:
                    less = lose(less, rank)
                yield recording, rank, ", ".join(lose.__name__ for lose in lost), judge(less)


def test_less_evidence_never_names_somebody_else_and_confidence_is_earned():
    """A wrong culprit is worse than undecided; what is said with 0.9 or more is right in 95 of 100 cases."""
    seen = list(degraded())

    strangers = [
        (recording.name, recording.params, rank, lost, verdict.summary)
        for recording, rank, lost, verdict in seen
        if not set(verdict.culprit_ranks) <= set(recording.culprits)
    ]
    assert strangers == []
    sure = [recording.is_truth(verdict) for recording, _, _, verdict in seen if verdict.confidence >= SURE]
    assert len(seen) > 500
    assert len(sure) > 50
    assert sum(sure) >= 0.95 * len(sure), f"{sum(sure)} of {len(sure)} sure verdicts are right"


@pytest.mark.parametrize("recording", recordings(alone=False), ids=lambda recording: recording.name)
def test_renumbered_ranks_get_the_same_verdict_with_other_numbers(recording: Recording) -> None:
    """No rank is the norm in a real job either."""
    snapshot = recording.snapshot()
    order = [*range(1, snapshot.world_size), 0]

    before, after = judge(snapshot), judge(relabel(snapshot, order))

    assert (after.status, after.cause, after.proof) == (before.status, before.cause, before.proof)
    assert after.culprit_ranks == tuple(sorted(order[rank] for rank in before.culprit_ranks))
