from __future__ import annotations

import pytest

from ddetect.model import UNKNOWN
from ddetect.stacks.lanes import OfLane, lane_of

THREADS = (OfLane(0, ident=100, tid=7), OfLane(3, ident=200, tid=8), OfLane(5, ident=300, tid=0))


@pytest.mark.parametrize(
    ("tid", "ident", "lane"),
    [
        (8, 200, 3),
        (8, 0, 3),  # pystack
        (0, 200, 3),  # faulthandler
        (9, 200, UNKNOWN),  # the ident of a thread that ended is another's now
        (9, 300, 5),  # a page that has no number of the kernel's
        (0, 0, UNKNOWN),
        (9, 0, UNKNOWN),
    ],
)
def test_lane_is_known_by_whatever_number_the_dumper_printed(tid: int, ident: int, lane: int) -> None:
    """The kernel's number decides where both sides have it."""
    assert lane_of(tid, ident, THREADS) == lane
