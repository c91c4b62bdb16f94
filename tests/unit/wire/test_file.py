"""A snapshot written and read again is the same; a bad file says what is wrong and what to do."""

from __future__ import annotations

import io
from dataclasses import fields

import numpy as np
import pytest

from ddetect.errors import BadSnapshot
from ddetect.model import (
    Beats,
    CallSpec,
    Comms,
    Departure,
    Efforts,
    Frame,
    Gone,
    Group,
    LastCall,
    Limit,
    Look,
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
    Snapshot,
    Table,
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
        looks=(
            Look(),
            Look(
                sample=Sample(
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
                    metered_s=[2.5, np.nan],
                    moved_bytes=[70_000, -1],
                    sightings=(
                        Sighting("S", (MAIN,), "py-spy"),
                        Sighting("D", unread="ptrace is denied", raised=Raised("OSError: gone", READ, True)),
                    ),
                ),
                comms=Comms(
                    groups=(Group("gloo", "0", "default_pg", (0, 1)),),
                    calls=(CallSpec("broadcast", "[[4]]", "['Float']", root=1),),
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
                    ops=Ops(rank=[0], group=[0], seq=[3], call=[0], state=[1], frame=[0]),
                    p2p=OpenP2P(rank=[1], kind=[2], peer=[0], tag=[0], group=[0], waiting=[1], age_s=[2.5]),
                ),
                unread=(Unread((0, 1), "no recorder"), Unread((2,), "its agent has left", "node-2", 0.0)),
                efforts=Efforts(
                    rank=[0, 0],
                    pid=[11, 11],
                    thread=[0, -1],
                    busy=[0.5, 0.001],
                    runs=[12, 3],
                    bytes=[70_000, -1],
                    bytes_age_s=[0.25, np.inf],
                ),
            ),
        ),
        gone=(
            Gone(1, Role.LOADER_WORKER, 0, 99, Departure.RAISED, 1.0, "ValueError: x", READ, 9),
            Gone(0, Role.RANK, -1, 98, Departure.VANISHED, 1.0, code=3),
            Gone(2, Role.RANK, -1, 97, Departure.EXITED, 1.0, code=0),
            Gone(
                3,
                Role.RANK,
                -1,
                96,
                Departure.VANISHED,
                1.0,
                signal=6,
                stack=(READ,),
                below=True,
                stderr=("what(): x",),
                last_call=LastCall(True, "broadcast", "gloo", "0", "default_pg", 7, 2, "SUM", 64, 4),
            ),
        ),
        limits=(Limit(Phase.DATA, 1.25, 7),),
        settings=Settings(patience_s=5),
    )


def same(one: object, other: object) -> bool:
    """Whether two values are equal, column by column."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (Table, Comms, Look, Snapshot)):
        return all(same(getattr(one, item.name), getattr(other, item.name)) for item in fields(one))
    return one == other


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
    raw[8] = 3

    with pytest.raises(BadSnapshot, match="newer ddetect") as caught:
        load_snapshot(io.BytesIO(bytes(raw)), "new.ddsnap")
    assert "pgrade" in caught.value.hint


def test_missing_file_names_itself(tmp_path):
    """One sentence with the path and the system's reason."""
    with pytest.raises(BadSnapshot, match="No such file"):
        read_snapshot(tmp_path / "nowhere.ddsnap")
