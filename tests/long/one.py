"""One case, in a process of its own: `python -m tests.long.one NAME FOLDER SHORTER PATIENCE PARENT`.

Leaves in FOLDER: stdout and stderr of the job, `out` (ddetect's), events.ddlog (every event of the job),
samples.jsonl, words.json, run.json and score.json. PATIENCE: seconds, or `default`. PARENT: the runner's pid; when it
ends, this ends its job and itself. A process of its own, because whoever runs a job adopts its orphans.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ddetect.coordinator.incidents import PAUSES
from ddetect.scenarios.catalogue import Params
from tests.hangbench.one import end_with_parent, make_empty
from tests.live.harness import Result, watch_job
from tests.long.again import ABOUT, EVENTS
from tests.long.case import TWIN_PATIENCE_S, Case, Situation, Suite, limit_s
from tests.long.catalogue import CASES
from tests.long.disk import slow_disk
from tests.long.freezing import freeze_later
from tests.long.playing import play
from tests.long.samples import Sampler
from tests.long.score import Seen, score
from tests.long.starting import RANKS, command, lacking
from tests.long.store import open_store
from tests.long.words import Listener, Word

DEFAULT_PATIENCE_S = 300.0  # for how long a case is watched at most; the job has what `ddetect launch` has
START_S = 240.0  # ten jobs share two cores
AFTER_ALARM_S = 6.0  # one more sample


def watched_for_s(case: Case, shorter: float, patience_s: float | None) -> float:
    """When a run is given up: well after every limit."""
    until_s = START_S + 1.3 * case.lasts_s / (case.shorter * shorter)
    if case.healthy:
        return until_s
    patience_s = TWIN_PATIENCE_S if case.suite is Suite.TWIN else patience_s or DEFAULT_PATIENCE_S
    usual_s = case.pace_s / (case.shorter * shorter)
    situation = (
        case.situation if case.suite is Suite.TWIN else Situation.POLLS
    )  # `status` may say so of a hang
    return until_s + 1.2 * limit_s(situation, patience_s, usual_s)


def run(case: Case, folder: Path, shorter: float, patience_s: float | None) -> Seen:
    """Run it to its end, or to its alarm, and see what is left."""
    if problem := lacking(case):
        return Seen(0.0, 0.0, None, [], [], problem=f"cannot be run here without {problem}")
    listener, hung = Listener(), folder / "hung"
    samplers: list[Sampler] = []
    ends: list[Callable[[], None]] = []

    def look(out: Path) -> None:
        if not samplers:
            samplers.append(Sampler(out.parent / "run", folder / "samples.jsonl"))
        listener.look(out)

    began = time.monotonic()
    with open_store() as store, slow_disk(folder / "disk") as disk:
        try:
            result = watch_job(
                command(case, shorter=shorter, store=store.address, disk=disk, hung=hung),
                Params(case.rank, RANKS),
                patience=TWIN_PATIENCE_S if case.suite is Suite.TWIN else patience_s,
                until="end" if case.healthy else "confirmed",
                timeout_s=watched_for_s(case, shorter, patience_s),
                end_after_s=AFTER_ALARM_S,
                env={"DDETECT_EVENTS": str((folder / EVENTS).absolute())},
                keep_after=folder / "out",
                on_start=lambda pid: ends.append(freeze_later(case, pid, shorter, hung)),
                on_look=look,
                replays=False,
            )
        finally:
            for end in [*ends, *(sampler.stop for sampler in samplers)]:
                end()
    shutil.rmtree(folder / "disk", ignore_errors=True)
    (folder / "stdout").write_text(result.stdout)
    (folder / "stderr").write_text(result.stderr)
    replayed, problem = _replayed(folder / EVENTS)
    return Seen(
        began=began,
        ended=time.monotonic(),
        hung_at=float(hung.read_text()) if hung.exists() else None,
        words=listener.words,
        replayed=replayed,
        samples=samplers[0].samples if samplers else [],
        pauses=_rows(folder / "out" / PAUSES),
        shorter=shorter,
        problem=_problem(case, result) or problem,
        left="; ".join(result.left),
    )


def _problem(case: Case, result: Result) -> str:
    """What went otherwise than it should, but for what ddetect said."""
    if result.problem:
        return result.problem
    return f"exit code {result.exit_code}" if case.healthy and result.exit_code else ""


def _replayed(log: Path) -> tuple[tuple[Word, ...], str]:
    """What its own events give again; a log that gives nothing is a fault of ours."""
    try:
        return tuple(play(log.read_bytes()).words), ""
    except (OSError, ValueError, KeyError, EOFError) as error:
        return (), f"its event log cannot be played again: {error}"


def _rows(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def main(name: str, folder: Path, shorter: float, patience_s: float | None) -> None:
    """Run it, and write what it is worth."""
    case = CASES[name]
    make_empty(folder)
    began = time.monotonic()
    try:
        seen = run(case, folder, shorter, patience_s)
    except Exception:  # whatever it is, the table shows it
        problem = traceback.format_exc()[-1500:]
        seen = Seen(began, time.monotonic(), None, [], [], shorter=shorter, problem=problem)
    about = {
        "name": name,
        "shorter": shorter,
        "patience_s": TWIN_PATIENCE_S if case.suite is Suite.TWIN else patience_s,
        "began": seen.began,
        "ended": seen.ended,
        "hung_at": seen.hung_at,
        "problem": seen.problem,
    }
    _write(folder / ABOUT, about)
    _write(folder / "words.json", [asdict(word) for word in seen.words])
    _write(folder / "score.json", asdict(score(case, seen)))


def _write(path: Path, told: Any) -> None:
    path.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    end_with_parent(int(sys.argv[5]))
    patience = None if sys.argv[4] == "default" else float(sys.argv[4])
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), patience)
