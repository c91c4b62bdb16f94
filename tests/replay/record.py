"""Keep snapshots of live runs for replay: `python -m tests.replay.record NAME=INCIDENT_FOLDER [NAME=FILE.ddsnap ...]`.

Enters: snapshots as `ddetect launch` or `ddetect attach` wrote them. Leaves: `recorded/NAME.ddsnap` without a path or
name of the machine, and its line in `truth.json`: the culprits, TAKEN FROM THE VERDICT of that run. So record only runs
that the live harness has compared with the scenario's truth; status, cause and line are held against it each time.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from ddetect.model import Frame, Sample, Sighting, Snapshot, Thread
from ddetect.wire.file import read_snapshot, write_snapshot

RECORDED = Path(__file__).with_name("recorded")
TRUTH = RECORDED / "truth.json"
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_STDLIB = re.compile(r"^.*/lib/python3\.\d+/")
_PATH = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+([\w.+-]+)")


def file_of_nobody(file: str) -> str:
    """The same file on a machine that does not exist."""
    if not file.startswith("/"):
        return file
    if _PACKAGES.match(file):
        return _PACKAGES.sub("/venv/lib/python3.11/site-packages/", file)
    if _STDLIB.match(file):
        return _STDLIB.sub("/usr/lib/python3.11/", file)
    return "/job/" + Path(file).name


def text_of_nobody(text: str) -> str:
    """A text without the folders that are in it."""
    return _PATH.sub(r"/job/\1", text)


def _frame(frame: Frame) -> Frame:
    return replace(frame, file=file_of_nobody(frame.file))


def _thread(thread: Thread) -> Thread:
    return replace(thread, stack=tuple(map(_frame, thread.stack)), target=text_of_nobody(thread.target))


def _sighting(seen: Sighting) -> Sighting:
    raised = seen.raised
    if raised is not None:
        where = _frame(raised.where) if raised.where else None
        raised = replace(raised, exception=text_of_nobody(raised.exception), where=where)
    threads = tuple(map(_thread, seen.threads))
    return replace(seen, threads=threads, unread=text_of_nobody(seen.unread), raised=raised)


def _sample(sample: Sample) -> Sample:
    return replace(sample, sightings=tuple(map(_sighting, sample.sightings)))


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same evidence, of nobody's machine."""
    nodes = tuple(f"node-{number}" for number in range(len(snapshot.roster.nodes)))
    gone = tuple(
        replace(g, exception=text_of_nobody(g.exception), where=_frame(g.where) if g.where else None)
        for g in snapshot.gone
    )
    return replace(
        snapshot,
        job="recorded",
        roster=replace(snapshot.roster, nodes=nodes),
        samples=tuple(map(_sample, snapshot.samples)),
        frames=tuple(map(_frame, snapshot.frames)),
        gone=gone,
        unread=tuple(replace(u, reason=text_of_nobody(u.reason)) for u in snapshot.unread),
    )


def record(name: str, source: Path, struck: list[int]) -> None:
    """Keep one snapshot and the ranks that its scenario struck."""
    path = source / "snapshot.ddsnap" if source.is_dir() else source
    RECORDED.mkdir(exist_ok=True)
    write_snapshot(RECORDED / f"{name}.ddsnap", anonymous(read_snapshot(path)))
    truth = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    truth[name] = {"culprits": struck}
    TRUTH.write_text(json.dumps(dict(sorted(truth.items())), indent=1) + "\n")


if __name__ == "__main__":
    for word in sys.argv[1:]:
        label, _, place = word.partition("=")
        said = json.loads((Path(place) / "verdict.json").read_text())
        record(label, Path(place), sorted({culprit["rank"] for culprit in said["culprits"]}))
