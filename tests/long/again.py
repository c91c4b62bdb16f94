"""What would have been said: `python -m tests.long.again OUT [NAMES] [--set patience_s=300]`.

Enters: the folder of a run of the exam, with the event log of each of its jobs. Leaves: for each what the rules as they
are now would have said, and when: relative to the hang, or to the start of a job that is well; then the score. This is
how a rule is tuned: in seconds, not by the hour. Limits are the table's: what `status` would have shown is not played.
Never here: a job, a judgement of the run that was.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from ddetect.model import Settings
from tests.long.case import SLACK_S, Case, Suite, limit_s, suspicion_s
from tests.long.catalogue import CASES
from tests.long.playing import Played, play
from tests.long.score import TOO_SURE, is_there
from tests.long.words import Word, highest, incidents_of

EVENTS, ABOUT = "events.ddlog", "run.json"  # in a run's folder


def tell(folder: Path, changed: Mapping[str, Any]) -> str:
    """A few lines about one run, played again."""
    about = json.loads((folder / ABOUT).read_text())
    case, factor = CASES[about["name"]], about["shorter"]
    hung_at = about["hung_at"]
    try:
        played = play((folder / EVENTS).read_bytes(), changed)
    except (OSError, ValueError, KeyError, EOFError) as error:
        return f"{case.name}: cannot be played ({type(error).__name__}: {error})"
    began = about["began"]
    patience_s = float(changed.get("patience_s") or about["patience_s"] or Settings().patience_s)
    heading = _healthy(case, played) if case.healthy else _hang(case, played, hung_at, factor, patience_s)
    lacks = (
        f"; {played.borrowed} looks borrowed, {played.missing} missing"
        if played.borrowed + played.missing
        else ""
    )
    faults = f"; {played.faults} FAULTS" if played.faults else ""
    lines = [f"{case.name:<26} {heading}{lacks}{faults}"]
    lines += [_line(word, began, hung_at) for word in changes(played.words)]
    return "\n".join(lines)


def changes(words: list[Word]) -> list[Word]:
    """Without those that say the same again."""
    kept: list[Word] = []
    for word in words:
        before = next((one for one in reversed(kept) if one.incident == word.incident), None)
        same = before is not None and (before.stage, before.cause, before.ranks, before.lines) == (
            word.stage, word.cause, word.ranks, word.lines,
        )  # fmt: skip
        if not same or (before is not None and word.confidence - before.confidence >= 0.05):
            kept.append(word)
    return kept


def _healthy(case: Case, played: Played) -> str:
    alarms = len({word.incident for word in played.words if word.alarm})
    sure = highest(played.words)
    mark = "ALARM" if alarms else "TOO SURE" if sure >= TOO_SURE else "right"
    minutes = (played.ended - played.began) / 60
    return (
        f"{mark:<9} healthy for {minutes:.1f} min: {alarms} alarms, {incidents_of(played.words)} suspicions, "
        f"at most {sure:.2f} sure"
    )


def _hang(case: Case, played: Played, hung_at: float | None, factor: float, patience_s: float) -> str:
    if hung_at is None:
        return "it never hung"
    usual_s = case.pace_s / (case.shorter * factor)
    before = [word for word in played.words if word.at < hung_at and word.alarm]
    named = next((word for word in played.words if word.at >= hung_at and word.ranks == (case.rank,)), None)
    alarm = next((word for word in played.words if word.at >= hung_at and word.alarm), None)
    limit = limit_s(case.situation, patience_s, usual_s) + SLACK_S
    wanted = suspicion_s(usual_s)
    right = (
        not before and alarm is not None and alarm.at - hung_at <= limit
        and (case.suite is Suite.TWIN or (named is not None and named.at - hung_at <= wanted and is_there(case, alarm)))
    )  # fmt: skip
    return (
        f"{'right' if right else 'WRONG':<9} usual {usual_s:.0f} s: suspected {_seconds(named, hung_at)} "
        f"(within {wanted:.0f}), alarm {_seconds(alarm, hung_at)} ({case.situation.value}: within {limit:.0f})"
        + (f", {len(before)} ALARMS before" if before else "")
    )


def _seconds(word: Word | None, since: float) -> str:
    return f"{word.at - since:+.1f} s" if word is not None else "never"


def _line(word: Word, began: float, hung_at: float | None) -> str:
    when = word.at - began if hung_at is None else word.at - hung_at
    stage = word.stage + (" (alarm)" if word.alarm and word.stage == "closed" else "")
    return f"    {when:+8.1f} s {stage:<11} {word.confidence:.2f} {word.summary[:150]}"


def runs_in(out: Path, patterns: list[str]) -> list[Path]:
    """The folders of runs that have a log, and are meant."""
    found = sorted(path.parent for path in out.glob(f"**/{EVENTS}") if path.with_name(ABOUT).exists())
    return [
        folder for folder in found
        if not patterns or any(fnmatch.fnmatchcase(folder.name, pattern) for pattern in patterns)
    ]  # fmt: skip


def setting(text: str) -> tuple[str, Any]:
    """`NAME=VALUE`, of one of the settings that a judgement has."""
    name, _, value = text.partition("=")
    kinds = {item.name: type(getattr(Settings(), item.name)) for item in fields(Settings)}
    if name not in kinds:
        raise argparse.ArgumentTypeError(f"no setting is called {name!r}; there are: {', '.join(kinds)}")
    return name, kinds[name](value)


def main(argv: list[str] | None = None) -> int:
    """Play, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.again", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the --out of a run")
    parser.add_argument("names", nargs="*", help="only these runs; patterns such as 'steps_*'")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args(argv)
    folders = runs_in(args.out, args.names)
    if not folders:
        raise SystemExit(f"there is no run with an event log in {args.out}")
    began = time.monotonic()
    with ProcessPoolExecutor(min(len(folders), os.cpu_count() or 1)) as pool:
        for text in pool.map(partial(tell, changed=dict(args.set)), folders):
            print(text, flush=True)
    print(f"\n{len(folders)} runs in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
