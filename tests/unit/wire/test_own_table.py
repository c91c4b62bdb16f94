"""A column is declared once: a table of the test's own travels through all that tables can do."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import numpy as np
import pytest

from ddetect.errors import BadSnapshot
from ddetect.model import UNKNOWN, Floats, Ints, Snapshot, Table
from ddetect.model.tables import check, floats, ints, join, keep_rows, older, part, values, without_ranks
from ddetect.wire.bundles import bundle_from, bundle_pb
from ddetect.wire.file import dump_snapshot, load_snapshot


@dataclass(frozen=True, eq=False)
class Heat(Table):
    """How warm each member's device is: nobody in the package has heard of it."""

    rank: Ints = ints()
    lane: Ints = ints(fill=0)
    sensor: Ints = ints(into="sensors", optional=True)
    read_age_s: Floats = floats(age=True)
    celsius: Floats = floats(fill=20.0)


@dataclass(frozen=True, eq=False)
class Devices:
    """A bundle: the table, and the list that it points into."""

    sensors: tuple[str, ...] = values(str)
    heat: Heat = part(Heat)


@dataclass(frozen=True, eq=False)
class WarmSnapshot(Snapshot):
    """A snapshot that has it."""

    devices: Devices = part(Devices)


def devices(*names: str, ranks: tuple[int, ...] = (0, 1)) -> Devices:
    places = [*range(len(names)), UNKNOWN][: len(ranks)]
    heat = Heat(rank=list(ranks), sensor=places, read_age_s=[1.0] * len(ranks), celsius=[60.0] * len(ranks))
    return Devices(names, heat)


def test_missing_column_is_filled_and_columns_are_frozen():
    """Rows that were written before a column was get its fill; nobody changes a column afterwards."""
    heat = Heat(rank=[3, 4], sensor=[UNKNOWN, UNKNOWN], read_age_s=[0, 1])

    assert (heat.celsius.tolist(), heat.lane.tolist()) == ([20.0, 20.0], [0, 0])
    with pytest.raises(ValueError, match="read-only"):
        heat.celsius[0] = 99.0


def test_column_of_another_length_is_refused():
    """A table whose columns differ is no table."""
    with pytest.raises(ValueError, match=r"Heat\.sensor has 1 rows, not 2"):
        Heat(rank=[0, 1], sensor=[0], read_age_s=[0, 1])


def test_joined_bundles_share_names_and_rows_point_at_their_own():
    """Two nodes that know the same sensor mean one; who points at nothing still does."""
    one = join(Devices, [devices("a", "b"), devices("b", "c", ranks=(2, 3, 4))])

    pointed = [one.sensors[at] if at >= 0 else None for at in one.heat.sensor]
    assert (one.sensors, one.heat.rank.tolist()) == (("a", "b", "c"), [0, 1, 2, 3, 4])
    assert pointed == ["a", "b", "b", "c", None]


def test_rows_are_kept_dropped_and_aged_with_every_column():
    """What works on rows works on a column that it has never seen."""
    heat = devices("a", "b").heat

    assert keep_rows(heat, np.array([False, True])).celsius.tolist() == [60.0]
    assert without_ranks(devices("a", "b"), [0]).heat.rank.tolist() == [1]
    assert older(heat, 2.5).read_age_s.tolist() == [3.5, 3.5]


def test_number_that_points_at_nothing_is_found():
    """A row never reaches past the end of its list."""
    with pytest.raises(ValueError, match="points at nothing in sensors"):
        check(replace(devices("a", "b"), sensors=("a",)))


def test_bundle_travels_over_the_wire():
    """Encoded and decoded it is the same, lists and columns."""
    sent = devices("a", "b")

    heard = bundle_from(Devices, bundle_pb(sent))

    assert (heard.sensors, heard.heat.celsius.tolist()) == (sent.sensors, [60.0, 60.0])
    assert heard.heat.sensor.tolist() == sent.heat.sensor.tolist()


def test_snapshot_that_declares_it_is_written_and_read():
    """The file carries what the dataclass declares; a reader that does not know it reads the rest."""
    raw = dump_snapshot(WarmSnapshot(job="warm", devices=devices("a", "b")))

    read = load_snapshot(io.BytesIO(raw), "warm.ddsnap", WarmSnapshot)
    plain = load_snapshot(io.BytesIO(raw), "warm.ddsnap")

    assert isinstance(read, WarmSnapshot)
    assert (read.job, read.devices.heat.celsius.tolist()) == ("warm", [60.0, 60.0])
    assert (type(plain), plain.job) == (Snapshot, "warm")


def test_file_whose_rows_point_at_nothing_is_refused():
    """Index checks hold for a table of one's own too."""
    bad = replace(devices("a", "b"), sensors=())
    raw = dump_snapshot(WarmSnapshot(devices=bad))

    with pytest.raises(BadSnapshot, match="points at nothing"):
        load_snapshot(io.BytesIO(raw), "bad.ddsnap", WarmSnapshot)


def test_older_writer_without_a_column_is_read_with_its_fill():
    """A column that is added tomorrow does not make today's files unreadable."""
    message = bundle_pb(devices("a", "b"))
    table = next(one.table for one in message.parts if one.HasField("table"))
    table.columns.remove("celsius")
    table.numbers = table.numbers[: 8 * table.rows * len(table.columns)]

    assert bundle_from(Devices, message).heat.celsius.tolist() == [20.0, 20.0]
