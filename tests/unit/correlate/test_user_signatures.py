"""A user's own stack patterns: they travel with the evidence, and reach all that asks what a stack means."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from ddetect.correlate.judge import judge, wants_native
from ddetect.correlate.motion import moved
from ddetect.model import Cause, Settings, Snapshot
from ddetect.wire.file import dump_snapshot, load_snapshot
from tests.unit.correlate.scenes import FUTEX, SLEEPS, TRAIN, Row, build, sighting, thread
from tests.unit.snapshots import changed

PULLS = sighting(thread("pull /job/blob.py:3", *TRAIN, **FUTEX))
SETTINGS = Settings(
    signatures=json.dumps(
        {
            "format": 1,
            "threads": [{"kind": "file_io", "function": "^pull$", "file": "/blob\\.py$", "at": "innermost"}],
        }
    )
)


def stuck(settings: Settings) -> Snapshot:
    builder = build(3)
    builder.enters(0, "all_reduce")
    builder.enters(2, "all_reduce")
    builder.rows[1] = Row(PULLS)
    return builder.snapshot(settings=settings)


def test_patterns_of_a_user_decide_again_when_the_file_is_read():
    """Judged on another machine, without --signatures, the answer is the same."""
    read = load_snapshot(io.BytesIO(dump_snapshot(stuck(SETTINGS))), "mine.ddsnap")

    assert (judge(stuck(Settings())).cause, judge(read).cause) == (Cause.PYTHON_LOCK, Cause.FILE_IO)


def test_patterns_of_a_user_spare_a_native_stack():
    """What the pattern tells is not asked of the process again."""
    assert (wants_native(stuck(Settings())), wants_native(stuck(SETTINGS))) == ((4010,), ())


def test_patterns_of_a_user_tell_what_moves():
    """A thread beside a main thread that waits for a file is no sign of life; beside a lock it may be."""
    others = [thread(f"{name} /job/pool.py:1", main=False, **SLEEPS) for name in ("first", "second")]
    looks = [replace(PULLS, threads=(*PULLS.threads, other)) for other in others]

    def motion(settings: Settings) -> bool:
        snapshot = stuck(settings)
        samples = []
        for sample, look in zip(snapshot.samples[:2], looks, strict=True):
            seen = tuple(look if one == PULLS else one for one in sample.sightings)
            samples.append(replace(sample, sightings=seen))
        return bool(moved(changed(snapshot, samples=tuple(samples)), [1]))

    assert (motion(Settings()), motion(SETTINGS)) == (True, False)
