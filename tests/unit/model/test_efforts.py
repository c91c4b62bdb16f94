"""What threads did travels with a look: joined, kept, aged and written like every other table."""

from __future__ import annotations

import math

from ddetect.model import UNKNOWN, Efforts, Look, Sample, Sighting
from ddetect.model.tables import join, older, without_ranks
from ddetect.wire.bundles import bundle_from, bundle_pb


def look(rank: int, pid: int, runs: int) -> Look:
    """A node with one rank, whose main thread ran."""
    sample = Sample(
        rank=[rank],
        role=[1],
        index=[UNKNOWN],
        pid=[pid],
        sighting=[0],
        fetching=[UNKNOWN],
        fetch_age_s=[math.inf],
        cpu_s=[1.0],
        io_bytes=[5],
        tick_age_s=[0.1],
        metered_s=[4.0],
        moved_bytes=[9],
        sightings=(Sighting("S"),),
    )
    efforts = Efforts(
        rank=[rank], pid=[pid], thread=[0], busy=[0.25], runs=[runs], bytes=[9], bytes_age_s=[1.0]
    )
    return Look(sample, efforts=efforts)


def test_nodes_are_joined_with_their_efforts():
    """Two nodes may have the same pid: rank and pid together say whose row it is."""
    joined = join(Look, [look(0, 7, 3), look(1, 7, 5)])

    rows = zip(joined.efforts.rank, joined.efforts.pid, joined.efforts.runs, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [(0, 7, 3), (1, 7, 5)]
    assert joined.sample.metered_s.tolist() == [4.0, 4.0]


def test_rank_that_another_node_tells_of_leaves_with_its_efforts():
    """A row of a rank that is not in the look any more would be nobody's."""
    joined = join(Look, [look(0, 7, 3), look(1, 8, 5)])

    assert without_ranks(joined, [0]).efforts.pid.tolist() == [8]


def test_age_of_bytes_grows_while_nobody_looks():
    """Bytes that moved a second ago moved three seconds ago when the look is two seconds old."""
    assert older(look(0, 7, 3).efforts, 2.0).bytes_age_s.tolist() == [3.0]


def test_look_of_an_older_agent_has_no_efforts_and_was_not_metered():
    """Who does not know them leaves them out; then nothing is said about threads, which is not "they stood still"."""
    message = bundle_pb(look(0, 7, 3))
    kept = [part for part in message.parts if part.path != "efforts"]
    del message.parts[:]
    message.parts.extend(kept)
    sample = next(part.table for part in message.parts if part.path == "sample" and part.HasField("table"))
    for name in ("metered_s", "moved_bytes"):
        at = list(sample.columns).index(name)
        sample.numbers = sample.numbers[: 8 * at] + sample.numbers[8 * (at + 1) :]  # it has one row
        sample.columns.remove(name)

    heard = bundle_from(Look, message)

    assert len(heard.efforts) == 0
    assert math.isnan(heard.sample.metered_s[0])
    assert heard.sample.moved_bytes.tolist() == [UNKNOWN]
