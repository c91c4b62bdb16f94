"""`make long`: programs at the paces of real jobs under `ddetect launch`, at default settings, for about an hour.

Enters: names, or nothing for all that are healthy or hang (`--twins`: for all twins). Leaves: a line per run as it
ends, and in --out: results.json and table.md (whole after every run) and a folder per run, with which
`python -m tests.long.again OUT` plays all of it again in seconds. Never here: torch; a process that outlives this one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.hangbench import made_with
from tests.hangbench.__main__ import end_family, score_in, write_whole
from tests.hangbench.one import make_empty
from tests.long.case import TWIN_PATIENCE_S, Case, Suite, limit_s
from tests.long.catalogue import CASES
from tests.long.one import DEFAULT_PATIENCE_S, watched_for_s
from tests.long.score import Seen, score
from tests.long.table import line, markdown

LANES = 10
GAP_S = 20.0  # between two starts: to import torch takes seconds of a core
END_S = 120.0  # for a run to end its job by itself, beyond its own limit
EPILOG = """\
examples:
  python -m tests.long                                  everything that is healthy, and every hang: about an hour
  python -m tests.long --twins                          every twin: about twenty minutes
  python -m tests.long 'steps_*' rollouts.hang          some of them
  python -m tests.long evaluation_all --shorter 20      is the program right? (a minute; it proves nothing else)"""


def chosen(words: list[str], *, twins: bool) -> list[Case]:
    """The cases that the command line means, the longest first: so they end together."""
    cases = [case for case in CASES.values() if (case.suite is Suite.TWIN) == twins]
    if words:
        for word in words:
            if not fnmatch.filter(CASES, word):
                raise SystemExit(f"no case is called {word!r}; there are: {', '.join(CASES)}")
        cases = [
            case for name, case in CASES.items() if any(fnmatch.fnmatchcase(name, word) for word in words)
        ]
    return sorted(cases, key=lambda case: -expected_s(case))


def expected_s(case: Case, shorter: float = 1.0) -> float:
    """About how long a run takes."""
    factor = case.shorter * shorter
    patience_s = TWIN_PATIENCE_S if case.suite is Suite.TWIN else DEFAULT_PATIENCE_S
    alarm_s = 0.0 if case.healthy else limit_s(case.situation, patience_s, case.pace_s / factor)
    return case.lasts_s / factor + alarm_s


def run_one(case: Case, out: Path, shorter: float, patience_s: float | None) -> dict[str, Any]:
    """One run in a process of its own; all that it started is ended if it takes too long, and the run has failed."""
    folder = out / case.name
    make_empty(folder)
    patience = "default" if patience_s is None else str(patience_s)
    command = [sys.executable, "-m", "tests.long.one", case.name, str(folder), str(shorter), patience]
    child = subprocess.Popen([*command, str(os.getpid())], stdin=subprocess.DEVNULL, start_new_session=True)
    give_up_s = watched_for_s(case, shorter, patience_s) + END_S
    try:
        child.wait(give_up_s)
        problem = f"it left no score (exit code {child.returncode})"
    except subprocess.TimeoutExpired:
        problem = f"it was not over after {give_up_s:.0f} s, and was killed"
        end_family(child)
    lost = Seen(0.0, 0.0, None, [], [], shorter=shorter, problem=problem)
    return score_in(folder) or asdict(score(case, lost))


class Exam:
    """The runs of one command line, and what came of them so far."""

    def __init__(self, args: argparse.Namespace, cases: list[Case]) -> None:
        self.args, self.cases = args, cases
        self.told: dict[str, dict[str, Any]] = {}
        self._writing, self._starting = threading.Lock(), threading.Lock()
        self._started_at = -GAP_S
        self._began = time.monotonic()
        self._made = {
            "suite": "twins" if all(case.suite is Suite.TWIN for case in cases) else "long",
            "command": made_with.command_of(sys.argv[1:], "tests.long"),
            "commit": made_with.commit(),
            "machine": made_with.machine(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "lanes": args.lanes,
            "shorter": args.shorter,
            "patience_s": args.patience,
            "planned": len(cases),
        }

    def go(self) -> None:
        """All of them, and once more those hangs that were timed while the machine was busy."""
        self._run(self.cases)
        busy = [case for case in self.cases if self.told[case.name]["repeat"]]
        if busy and self.args.shorter == 1:
            print(f"{len(busy)} hangs were timed on a busy machine, and are repeated", flush=True)
            for case in busy:
                (self.args.out / case.name).rename(self.args.out / f"{case.name}.first")
            self._run(busy, again=True)

    def _run(self, cases: list[Case], *, again: bool = False) -> None:
        with ThreadPoolExecutor(self.args.lanes) as lanes:
            list(lanes.map(lambda case: self._do(case, again=again), cases))

    def _do(self, case: Case, *, again: bool) -> None:
        self._wait_for_turn()
        told = run_one(case, self.args.out, self.args.shorter, self.args.patience)
        with self._writing:
            self.told[case.name] = {**told, "repeated": again}
            runs = [self.told[name] for name in CASES if name in self.told]
            minutes = round((time.monotonic() - self._began) / 60, 1)
            so_far = {**self._made, "minutes": minutes, "runs": runs}
            write_whole(self.args.out / "results.json", json.dumps(so_far, indent=1) + "\n")
            write_whole(self.args.out / "table.md", markdown(so_far))
            print(f"{len(self.told)}/{len(self.cases)} {line(told)}", flush=True)

    def _wait_for_turn(self) -> None:
        """Starts are so far apart, whoever starts."""
        with self._starting:
            time.sleep(max(0.0, self._started_at + self.args.gap - time.monotonic()))
            self._started_at = time.monotonic()


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.long", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help="names of cases, or patterns (default: all healthy, all hangs)"
    )
    parser.add_argument("--twins", action="store_true", help="the twins instead")
    parser.add_argument("--lanes", type=int, default=LANES, help="jobs at a time (default: %(default)s)")
    parser.add_argument(
        "--gap", type=float, default=GAP_S, help="seconds between starts (default: %(default)s)"
    )
    parser.add_argument(
        "--shorter", type=float, default=1.0, help="divide every duration by this, for a trial"
    )
    parser.add_argument("--patience", type=float, help="for a trial; without it jobs run at default settings")
    parser.add_argument("--list", action="store_true", help="say what would be run, and how long it takes")
    parser.add_argument("--out", type=Path, default=Path("long-out"))
    args = parser.parse_args()
    cases = chosen(args.names, twins=args.twins)
    if args.list:
        for case in cases:
            print(f"{case.name:<28} {expected_s(case, args.shorter) / 60:5.1f} min  {case.kind}")
        return 0
    exam = Exam(args, cases)
    exam.go()
    print(f"\n{(args.out / 'table.md').read_text()}\nall of it is in {args.out}")
    return 0


if __name__ == "__main__":
    # The runs hear of it (`one` asks the kernel for a signal when its parent ends) and end their jobs themselves.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    sys.exit(main())
