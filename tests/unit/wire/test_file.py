"""A snapshot written and read again is the same; a bad file says what is wrong and what to do."""

from __future__ import annotations

import io
from dataclasses import fields

import numpy as np
import pytest

from ddetect.errors import BadSnapshot
from ddetect.model import (
    Beats,
    Departure,
    Frame,
    Gone,
    Group,
    Limit,
    OpenP2P,
    Ops,
    Phase,
    Progress,
    Raised,
    Role,
    Roster,
    Sample,
    Settings,
    Sighting,
    Signature,
    Snapshot,
    Thread,
    Unread,
)
from ddetect.wire.file import dump_snapshot, load_snapshot, read_snapshot, write_snapshot

READ = Frame("read_shard", "/data/train/dataset.py", 88)
MAIN = Thread(
    "MainThread",
    True,
    False,
    False,
    (READ,),
    "S",
    "futex_do_wait",
    "futex",
    "",
    ("pthread_cond_wait",),
    lane=0,
)


@pytest.fixture
def snapshot() -> Snapshot:
    one = {"rank": [0, 1]}
    zeros = {item.name: [0, 0] for item in fields(Beats)}
    return Snapshot(
        job="j",
        attempt=2,
        world_size=2,
        taken_at_unix_ns=12,
        stalled_for_s=4.5,
        roster=Roster(**one, lane=[0, 0], node=[0, 0], pid=[11, 12], start_ticks=[5, 6], nodes=("node-0",)),
        beats=Beats(**(zeros | {"step_age_s": [1.5, np.inf]})),
        samples=(
            Sample(
                **one,
                role=[1, 1],
                index=[-1, -1],
                pid=[11, 12],
                sighting=[0, 1],
                fetching=[-1, 7],
                fetch_age_s=[np.inf, 3.0],
                cpu_s=[1, 2],
                io_bytes=[3, 4],
                tick_age_s=[0.1, 0.2],
                gpu_busy=[93, np.nan],
                sightings=(
                    Sighting("S", (MAIN,), "py-spy"),
                    Sighting("D", unread="ptrace is denied", raised=Raised("OSError: gone", READ, True)),
                ),
            ),
        ),
        groups=(Group("gloo", "0", "default_pg", (0, 1)),),
        signatures=(Signature("broadcast", "[[4]]", "['Float']", root=1),),
        frames=(READ,),
        progress=Progress(
            **one,
            group=[0, 0],
            enqueued=[3, 2],
            started=[0, 0],
            completed=[2, 2],
            oldest_open=[3, 0],
            first_kept=[1, 1],
        ),
        ops=Ops(rank=[0], group=[0], seq=[3], signature=[0], state=[1], frame=[0]),
        p2p=OpenP2P(rank=[1], kind=[2], peer=[0], tag=[0], group=[0], waiting=[1], age_s=[2.5]),
        gone=(Gone(1, Role.LOADER_WORKER, 0, 99, Departure.RAISED, 1.0, "ValueError: x", READ, 9),),
        unread=(Unread((0, 1), "no recorder"), Unread((2,), "its agent has left", "node-2", 0.0)),
        limits=(Limit(Phase.DATA, 1.25, 7),),
        settings=Settings(patience_s=5),
    )


def same(one: object, other: object) -> bool:
    for item in fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, item.name), getattr(other, item.name)
        if isinstance(a, np.ndarray):
            equal = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        elif isinstance(a, (Roster, Beats, Progress, Ops, OpenP2P)):
            equal = same(a, b)
        elif item.name == "samples":
            equal = len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
        else:
            equal = a == b
        if not equal:
            print(item.name, a, b)
            return False
    return True


def test_snapshot_written_and_read_is_the_same(snapshot, tmp_path):
    """Nothing a rule may look at is lost on the way to disk and back."""
    write_snapshot(tmp_path / "s.ddsnap", snapshot)

    assert same(read_snapshot(tmp_path / "s.ddsnap"), snapshot)
    assert [p.name for p in tmp_path.iterdir()] == ["s.ddsnap"]


def test_file_cut_off_anywhere_is_refused(snapshot):
    """Every prefix of a file is known to be incomplete."""
    raw = dump_snapshot(snapshot)

    for length in range(len(raw)):
        with pytest.raises(BadSnapshot):
            load_snapshot(io.BytesIO(raw[:length]), "cut.ddsnap")


def test_flipped_byte_is_refused_or_read_never_a_crash(snapshot):
    """A damaged file gives BadSnapshot, whatever byte it is."""
    raw = dump_snapshot(snapshot)

    for at in range(len(raw)):
        bad = bytearray(raw)
        bad[at] ^= 0x55
        with pytest.raises(BadSnapshot):
            load_snapshot(io.BytesIO(bytes(bad)), "bad.ddsnap")


def test_newer_schema_asks_for_an_upgrade(snapshot):
    """A file of a newer ddetect is not guessed at."""
    raw = bytearray(dump_snapshot(snapshot))
    raw[8] = 2

    with pytest.raises(BadSnapshot, match="newer ddetect") as caught:
        load_snapshot(io.BytesIO(bytes(raw)), "new.ddsnap")
    assert "pgrade" in caught.value.hint


def test_missing_file_names_itself(tmp_path):
    """One sentence with the path and the system's reason."""
    with pytest.raises(BadSnapshot, match="No such file"):
        read_snapshot(tmp_path / "nowhere.ddsnap")
