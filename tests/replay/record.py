"""Keep snapshots of a hangbench run for replay: `python -m tests.replay.record HANGBENCH_OUT/seed-N [SCENARIO ...]`.

Enters: the folders that `tests.hangbench` left. Leaves: `recorded/NAME.ddsnap` (under `ddetect launch`) and
`recorded/NAME.alone.ddsnap` (under `ddetect attach`), without a path or name of the machine, and in `truth.json` the
parameters that the run was started with: who was struck is known from them, never from a verdict.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddetect.model import Frame, Look, Sample, Sighting, Snapshot, Thread, Unread
from ddetect.wire.file import read_snapshot, write_snapshot
from tests.of_nobody import text_of_nobody
from tests.replay.recordings import ALONE, RECORDED, TRUTH

SUFFIX = {"launch": "", "attach": ALONE}
_PACKAGES = re.compile(r"^.*/(?:site|dist)-packages/")
_STDLIB = re.compile(r"^.*/lib/python3\.\d+/")


def file_of_nobody(file: str) -> str:
    """The same file on a machine that does not exist."""
    if not file.startswith("/"):
        return file
    if _PACKAGES.match(file):
        return _PACKAGES.sub("/venv/lib/python3.11/site-packages/", file)
    if _STDLIB.match(file):
        return _STDLIB.sub("/usr/lib/python3.11/", file)
    return "/job/" + Path(file).name


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


def _unread(item: Unread, nodes: dict[str, str]) -> Unread:
    node = nodes.get(item.node, "node-x") if item.node else ""
    reason = item.reason.replace(item.node, node) if node else item.reason
    return replace(item, reason=text_of_nobody(reason), node=node)


def _look(look: Look, nodes: dict[str, str]) -> Look:
    return Look(
        _sample(look.sample),
        replace(look.comms, frames=tuple(map(_frame, look.comms.frames))),
        tuple(_unread(item, nodes) for item in look.unread),
    )


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same evidence, of nobody's machine."""
    nodes = {name: f"node-{number}" for number, name in enumerate(snapshot.roster.nodes)}
    gone = tuple(
        replace(
            g,
            exception=text_of_nobody(g.exception),
            where=_frame(g.where) if g.where else None,
            stack=tuple(map(_frame, g.stack)),
            stderr=tuple(map(text_of_nobody, g.stderr)),
        )
        for g in snapshot.gone
    )
    return replace(
        snapshot,
        job="recorded",
        roster=replace(snapshot.roster, nodes=tuple(nodes.values())),
        looks=tuple(_look(look, nodes) for look in snapshot.looks),
        gone=gone,
    )


def record(name: str, snapshot: Path, params: dict[str, Any]) -> None:
    """Keep one snapshot and what its run was started with."""
    RECORDED.mkdir(exist_ok=True)
    write_snapshot(RECORDED / f"{name}.ddsnap", anonymous(read_snapshot(snapshot)))
    truth = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    truth[name] = {key: params[key] for key in ("rank", "world_size", "at", "step_ms")}
    TRUTH.write_text(json.dumps(dict(sorted(truth.items())), indent=1) + "\n")


def record_all(seed_folder: Path, names: list[str]) -> None:
    """Keep what ddetect saw of each hanging scenario, right or wrong."""
    for path in sorted(seed_folder.glob("*/score.json")):
        told = json.loads(path.read_text())
        label = SUFFIX.get(told["tool"])
        snapshots = sorted(path.parent.glob("**/*.ddsnap"))
        if label is None or told["healthy"] or not snapshots or (names and told["scenario"] not in names):
            continue
        record(told["scenario"] + label, snapshots[-1], told["params"])


if __name__ == "__main__":
    record_all(Path(sys.argv[1]), sys.argv[2:])
