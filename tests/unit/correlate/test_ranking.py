"""Which finding names the verdict: a typed key, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from ddetect.correlate.finding import Finding, Precedence, Weight
from ddetect.correlate.phrases import as_waiting
from ddetect.correlate.ranking import join, strength, strongest
from ddetect.correlate.wait import Wait
from ddetect.model import Cause, Culprit, Names, Proof, Status, Waiting
from ddetect.model.claims import Each
from ddetect.model.deeds import Act, Deed


def finding(rank: int, cause: Cause = Cause.USER_CODE, **more: object) -> Finding:
    """A rank that does not come."""
    deed = Deed(Act.SLEEPS)
    base = Finding(
        Precedence.NEVER_ENTERED, Status.HANG, cause, Proof.TIME, 0.9, (Each(((rank, deed),)),),
        (Culprit(rank, deed=deed),),
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


STRONGER_FIRST = [
    finding(9, precedence=Precedence.MISMATCH, weight=Weight(moves=True)),
    finding(8, proof=Proof.STRUCTURAL, weight=Weight(moves=True)),
    finding(7, weight=Weight(size=1)),
    finding(6, weight=Weight(likely=True, size=1000)),
    finding(5, weight=Weight(moves=True, size=10**9)),
    finding(4, precedence=Precedence.NEVER_LEFT, proof=Proof.STRUCTURAL),
]


def test_strength_is_compared_field_by_field():
    """No size outweighs motion, no certainty outweighs proof, whatever the numbers."""
    mixed = STRONGER_FIRST[3:] + STRONGER_FIRST[:3]

    assert sorted(mixed, key=strength) == STRONGER_FIRST


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_order_of_arrival_chooses_nobody(order):
    """Equals are named together, in one order, whichever rule spoke first."""
    several = [finding(3, Cause.FILE_IO), finding(1, Cause.PYTHON_LOCK), finding(2, Cause.FILE_IO)]
    equals, rest = strongest([several[i] for i in order])

    assert ([one.culprits[0].rank for one in equals], rest) == ([2, 3, 1], [])
    assert join(equals).cause is Cause.FILE_IO


def test_names_of_causes_do_not_choose():
    """Of classes that are equally large the one that stands first in the list of causes is told first."""
    equals, _ = strongest([finding(0, Cause.BUILDING), finding(1, Cause.PYTHON_LOCK)])

    assert equals[0].cause is Cause.PYTHON_LOCK


def test_waiting_members_are_split_so_that_ranks_times_lanes_is_exact():
    """Rank 0 waits with both replicas, rank 1 with the second only: two entries."""
    wait = Wait("all_reduce", (0, 0 | 1 << 32, 1 | 1 << 32))

    assert as_waiting(wait, wait.waiters, Names(ranks=2, lanes=2)) == [
        Waiting((0,), "all_reduce", lanes=(0, 1)),
        Waiting((1,), "all_reduce", lanes=(1,)),
    ]
    assert as_waiting(Wait("barrier", (0, 1)), (0, 1), Names(ranks=2)) == [Waiting((0, 1), "barrier")]
