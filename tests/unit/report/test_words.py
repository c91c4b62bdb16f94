"""How members are called."""

from __future__ import annotations

import pytest

from ddetect.model import Names, Words
from ddetect.report.words import name_members

ONE_PROCESS = Names(ranks=1, lanes=4)
SEVERAL = Names(ranks=8, lanes=2)
A, B = 0, 1 << 32  # the first and the second lane


@pytest.mark.parametrize(
    ("members", "names", "said"),
    [
        ((), Names(), "no rank"),
        ((2,), Names(), "rank 2"),
        ((3, 0, 1), Names(ranks=8), "ranks 0-1,3"),
        ((), ONE_PROCESS, "no replica"),
        ((0,), ONE_PROCESS, "replica 0"),
        ((0, 2 << 32), ONE_PROCESS, "replicas 0,2"),
        ((3 | B,), SEVERAL, "replica 1 of rank 3"),
        ((3 | A, 3 | B), SEVERAL, "replicas 0-1 of rank 3"),
        ((0 | B, 1 | B), SEVERAL, "replica 1 of ranks 0-1"),
        ((0 | B, 3 | A, 3 | B), SEVERAL, "replica 1 of rank 0 and replicas 0-1 of rank 3"),
        ((0, 1), SEVERAL.by_rank, "ranks 0-1"),
        ((B,), Names(Words(member="task", lane="tower"), 1, 2), "tower 1"),
    ],
)
def test_members_are_named_by_rank_and_lane_as_far_as_the_job_has_them(members, names, said):
    """One lane: ranks. One rank: replicas. Both: replicas of ranks."""
    assert name_members(members, names) == said
