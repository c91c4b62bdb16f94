"""What many do by hand: `py-spy dump` of every rank, and whoever stands elsewhere than the most is it.

The main thread's frames are compared as text. A dump that fails is a text of its own: a person would look there.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from ddetect.scenarios.catalogue import Params, Scenario, command
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import STILL_S, ask_when_still
from tests.hangbench.tools.tool import Tool

DUMP_TIMEOUT_S = 20.0
_THREAD = re.compile(r'^Thread .*?(?:: "(?P<name>.*)")?$')


def main_thread(dump: str) -> str:
    """The frames of the main thread, innermost first, one per line; of the first thread if none is called so."""
    threads: list[tuple[str, list[str]]] = []
    for line in dump.splitlines():
        if found := _THREAD.match(line):
            threads.append((found["name"] or "", []))
        elif threads and line.startswith("    "):
            threads[-1][1].append(line.strip())
    frames = next(
        (frames for name, frames in threads if name == "MainThread"), threads[0][1] if threads else []
    )
    return "\n".join(frames)


def odd_ones_out(texts: Mapping[int, str]) -> tuple[int, ...] | None:
    """Whoever is not in the largest group; () if all agree, None if no group is the largest: that is no answer."""
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, text in texts.items():
        groups[text].append(rank)
    most = max((len(ranks) for ranks in groups.values()), default=0)
    largest = [ranks for ranks in groups.values() if len(ranks) == most]
    if len(largest) != 1:
        return None
    return tuple(sorted(set(texts) - set(largest[0])))


def _dump(pid: int) -> tuple[str, str]:
    """py-spy's words, or why there are none."""
    try:
        done = subprocess.run(
            ["py-spy", "dump", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=DUMP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {DUMP_TIMEOUT_S:.0f} s"
    return (
        (done.stdout, "") if done.returncode == 0 else ("", done.stderr.strip() or f"exit {done.returncode}")
    )


def _ask(job: Job, kept: Path) -> Outcome:
    asked_at = time.time()
    ranks = {rank: pid for pid, rank in job.clock.ranks.items()}
    with ThreadPoolExecutor(max(len(ranks), 1)) as pool:
        dumps = dict(zip(ranks, pool.map(_dump, ranks.values()), strict=True))
    for rank, (dump, failure) in dumps.items():
        (kept / f"rank-{rank}.txt").write_text(dump or failure)
    failed = {rank: failure.splitlines()[0] for rank, (_, failure) in dumps.items() if failure}
    culprits = odd_ones_out({rank: main_thread(dump) or "unreadable" for rank, (dump, _) in dumps.items()})
    answered = time.time() if culprits is not None else None
    where = {
        rank: main_thread(dumps[rank][0]).split("\n")[0] or failed.get(rank, "") for rank in sorted(dumps)
    }
    return Outcome(
        alarm_at=answered,
        named_at=answered,
        last_progress=asked_at,
        culprits=culprits,
        status="hang" if culprits is not None else None,
        asked=True,
        says=("a tie" if culprits is None else f"odd ones out: {list(culprits)}")
        + f" in {time.time() - asked_at:.1f} s; {where}"
        + (f"; failed: {failed}" if failed else ""),
    )


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Plain job; asked when it stands still."""
    with running(command(scenario, params), folder) as job:
        return ask_when_still(job, scenario, folder, _ask)


TOOL = Tool(
    name="py-spy dump + vote",
    version=lambda: version("py-spy"),
    settings=f"`py-spy dump --pid` of every rank when the job has stood still for {STILL_S:.0f} s, timeout "
    f"{DUMP_TIMEOUT_S:.0f} s; main threads compared as text (a failed dump is a text of its own), the minority is the "
    "culprit, nobody if all agree, a tie is no answer; program unchanged",
    run=run,
    tells_cause=False,
)
