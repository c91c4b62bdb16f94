"""Since when an answer could be read: by the file's own time, as far as the same answer stood there."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tests.hangbench.sightings import Sightings


def write(out: Path, at_s: float, cause: str | None, *ranks: int, incident: int = 1) -> dict[str, Any]:
    """The same file anew, at another time."""
    status = "hang" if cause else "undecided"
    verdict = {
        "incident": incident,
        "status": status,
        "cause": cause,
        "culprits": [{"rank": one} for one in ranks],
    }
    path = out / f"incident-{incident:03d}" / "verdict.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(verdict))
    os.utime(path, (at_s, at_s))
    return verdict


def test_an_answer_counts_from_when_it_came_to_stay(tmp_path):
    """Another one in between begins it anew; the same one written again does not."""
    seen = Sightings()
    seen.look(tmp_path)
    for at, cause, ranks in (
        (10, "user_code", (1,)),
        (12, None, ()),
        (14, "user_code", (1,)),
        (19, "user_code", (1,)),
    ):
        last = write(tmp_path, at, cause, *ranks)
        seen.look(tmp_path)

    assert seen.since(last) == 14.0


def test_incidents_are_told_apart_and_one_that_was_taken_back_is_no_error(tmp_path):
    """An answer that nobody saw has no time."""
    seen = Sightings()
    one, two = write(tmp_path, 10, "user_code", 1), write(tmp_path, 20, "user_code", 1, incident=2)
    seen.look(tmp_path)
    shutil.rmtree(tmp_path / "incident-001")
    seen.look(tmp_path)

    assert (seen.since(one), seen.since(two)) == (10.0, 20.0)
    assert seen.since({**two, "cause": "file_io"}) is None
