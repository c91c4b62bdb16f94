"""`make hangbench`: scenarios with a known truth under ddetect and under the tools that people use today.

Enters: scenarios, tools, seeds. Leaves: a line per run as it ends, and in --out: results.json and table.md (whole after
every run), and what each tool kept. Never here: torch; a process that outlives the bench.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from ddetect.model import Status
from ddetect.scenarios.catalogue import SCENARIOS, Scenario
from ddetect.scenarios.starting import require
from tests.hangbench import made_with
from tests.hangbench.draw import drawn
from tests.hangbench.ends import ends_of, one_per_cause
from tests.hangbench.one import make_empty
from tests.hangbench.outcome import Outcome, score
from tests.hangbench.table import ends_markdown, results, seeds_markdown, table_markdown, tensorflow_markdown
from tests.hangbench.tools.all import TOOLS
from tests.live.busy import busy_cores

GIVE_UP_S = 460.0  # above every limit of every tool, and the time that it takes to end a job
END_S = 20.0
EPILOG = """\
scenarios: names, patterns such as 'mismatch_*', or of torch's `causes` (one per cause), `hanging`, `healthy`, `all`
(the default), or `tensorflow`: all of TensorFlow's; or `ends` alone: one hang per cause, each ended in every way
examples:
  python -m tests.hangbench causes healthy --tools launch,attach
  python -m tests.hangbench all --tools launch,attach --seeds 1,2,3 --lanes 3 --out hangbench-out
  python -m tests.hangbench tensorflow --tools launch,attach --seeds 1,2,3 --lanes 2
  python -m tests.hangbench ends --lanes 2
  python -m tests.hangbench all --tools launch --lanes 2 --busy"""
ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Run:
    """One cell: a scenario under a tool; `end` instead of the one that is the seed's turn."""

    scenario: str
    tool: str
    seed: str
    end: str = ""

    @property
    def folder(self) -> str:
        """Where it leaves what it saw."""
        end = f".{re.sub(r'[^A-Za-z]+', '-', self.end).strip('-')}" if self.end else ""
        return f"seed-{self.seed}/{self.scenario}.{self.tool}{end}"


def planned(words: list[str], tools: list[str], seeds: list[str]) -> list[Run]:
    """Every run that the command line means, in order."""
    if words == [ENDS]:
        hangs = list(enumerate(one_per_cause()))
        return [
            Run(hang.name, "launch", seed, end.name)
            for seed in seeds
            for i, hang in hangs
            for end in ends_of(hang, i)
        ]
    if ENDS in words:
        raise SystemExit(f"`{ENDS}` stands alone: it is a suite of its own")
    return [Run(name, tool, seed) for seed in seeds for name in chosen(words) for tool in tools]


def chosen(words: list[str]) -> list[str]:
    """The scenarios that the words on the command line mean, in the catalogue's order."""
    names = set[str]()
    for word in words:
        found = {name for name, scenario in SCENARIOS.items() if meant(word, scenario)}
        if not found:
            raise SystemExit(f"no scenario is called {word!r}; there are: {', '.join(SCENARIOS)}")
        names |= found
    return [name for name in SCENARIOS if name in names]


def meant(word: str, scenario: Scenario) -> bool:
    """Whether a word on the command line means this scenario."""
    torchs, healthy = scenario.framework == "torch", scenario.status is Status.HEALTHY
    suites = {
        "all": torchs,
        "causes": torchs and scenario.every_time and not healthy,
        "hanging": torchs and not healthy,
        "healthy": torchs and healthy,
        "tensorflow": scenario.framework == "tensorflow",
    }
    return suites[word] if word in suites else fnmatch.fnmatchcase(scenario.name, word)


def run_one(run: Run, out: Path, min_world: int) -> dict[str, Any]:
    """One run in a process of its own; all that it started is ended if it takes too long, and the run has failed."""
    folder = out / run.folder
    make_empty(folder)
    command = [
        sys.executable, "-m", "tests.hangbench.one", run.scenario, run.tool, run.seed, str(folder), str(min_world),
        str(os.getpid()), run.end,
    ]  # fmt: skip
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        child.wait(GIVE_UP_S)
        problem = f"it left no score (exit code {child.returncode})"
    except subprocess.TimeoutExpired:
        problem = f"it was not over after {GIVE_UP_S:.0f} s, and was killed"
        end_family(child)
    return score_in(folder) or failed_score(run.scenario, run.tool, run.seed, min_world, problem)


def score_in(folder: Path) -> dict[str, Any] | None:
    """What a run left."""
    path = folder / "score.json"
    return json.loads(path.read_text()) if path.exists() else None


def failed_score(name: str, tool: str, seed: str, min_world: int, problem: str) -> dict[str, Any]:
    """Of a run that left none."""
    scenario = SCENARIOS[name]
    params = drawn(scenario, seed, attached=TOOLS[tool].attaches, min_world=min_world)
    return asdict(score(tool, seed, scenario, params, Outcome(failed=problem)))


def end_family(child: subprocess.Popen[bytes]) -> None:
    """Let a run that we started end its job by itself; then kill it and all that is below it."""
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        for process in [*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)]:
            try:
                process.kill()
            except psutil.Error:
                pass  # it ended by itself
        child.wait()


def write_whole(path: Path, text: str) -> None:
    """Whoever ends the bench finds the old text or the new one."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def line(told: dict[str, Any]) -> str:
    """One run for the eye."""
    outcome = told["outcome"]
    mark = (
        "right"
        if told["right"]
        else "cannot"
        if outcome["cannot"]
        else "FAILED"
        if outcome["failed"]
        else "LEFT"
        if outcome["left"]
        else "WRONG"
    )
    times = " ".join(
        f"{told[key]:5.1f}" if told[key] is not None else "    -"
        for key in ("seconds_to_name", "seconds_to_alarm")
    )
    said = ""
    if not told["right"]:
        answer = f"{outcome['status']}/{outcome['cause']} {outcome['culprits']}, is {told['truth']}"
        why = (
            outcome["cannot"] or outcome["failed"] or outcome["left"] or outcome["beside"] or outcome["says"]
        )
        said = f" | {told['params']} {answer}: {why[:300]!r}"
    end = f" ({outcome['ended_by']})" if outcome["ended_by"] else ""
    return f"{told['tool']:<12} {told['scenario']:<26} seed {told['seed']:<4} {mark:<6} {times}{end}{said}"


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(
        prog="hangbench", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", default=["all"])
    parser.add_argument("--tools", default=",".join(TOOLS), help="default: %(default)s")
    parser.add_argument("--seeds", default="1", help="one full run for each (default: %(default)s)")
    parser.add_argument("--lanes", type=int, default=1, help="jobs at a time (default: %(default)s)")
    parser.add_argument(
        "--min-world", type=int, default=2, help="ranks of the smallest job (default: %(default)s)"
    )
    parser.add_argument("--busy", action="store_true", help="give every core something else to do meanwhile")
    parser.add_argument("--out", type=Path, default=Path("hangbench-out"))
    args = parser.parse_args()
    tools, seeds = args.tools.split(","), args.seeds.split(",")
    if unknown := [tool for tool in tools if tool not in TOOLS]:
        raise SystemExit(f"no tool is called {unknown[0]!r}; there are: {', '.join(TOOLS)}")
    runs = planned(args.scenarios, tools, seeds)
    names = dict.fromkeys(run.scenario for run in runs)
    for name in names:
        require(SCENARIOS[name])
    began, writing, told = time.monotonic(), threading.Lock(), dict[Run, dict[str, Any]]()
    used = {tool: TOOLS[tool] for tool in tools if any(run.tool == tool for run in runs)}
    table = table_markdown
    if args.scenarios == [ENDS]:
        table = ends_markdown
    elif {SCENARIOS[name].framework for name in names} == {"tensorflow"}:
        table = tensorflow_markdown
    elif set(used) <= {"launch", "attach"}:
        table = seeds_markdown
    made = {
        "command": made_with.command_of(sys.argv[1:]),
        "commit": made_with.commit(),
        "machine": made_with.machine(),
        "lanes": args.lanes,
        "busy": args.busy,
        "planned": len(runs),
    }

    def do(run: Run) -> None:
        result = run_one(run, args.out, args.min_world)
        with writing:
            told[run] = result
            so_far = results(made, used, [told[one] for one in runs if one in told])
            write_whole(args.out / "results.json", json.dumps(so_far, indent=1) + "\n")
            write_whole(args.out / "table.md", table(so_far))
            print(f"{len(told)}/{len(runs)} {line(result)}", flush=True)

    with busy_cores() if args.busy else nullcontext(), ThreadPoolExecutor(args.lanes) as lanes:
        list(lanes.map(do, runs))
    minutes = (time.monotonic() - began) / 60
    print(f"\n{(args.out / 'table.md').read_text()}")
    print(f"{len(runs)} runs in {minutes:.0f} minutes; all of it is in {args.out}")
    return 0


if __name__ == "__main__":
    # The runs hear of it (`one` asks the kernel for a signal when its parent ends) and end their jobs themselves.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os._exit(128 + number))
    sys.exit(main())
