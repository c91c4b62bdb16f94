"""torch's Flight Recorder and its analyzer: dumps of every rank when the job stands still, then `torchfrtrace DIR`.

gloo writes no dump by itself, so each rank runs torch's worker server, which is asked for the recorder's content.
The analyzer wants pickles, the server gives JSON of the same fields. It raises KeyError on every gloo dump of torch
2.13.0 (the groups are listed under the name ''), so there are two tools: as shipped, and with that list repaired.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddetect.model import Cause, Status
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.job import running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import STILL_S, ask_when_still
from tests.hangbench.tools.through import STARTS_ITSELF, through
from tests.hangbench.tools.tool import Tool

DUMP_TIMEOUT_S = 20.0
ANALYZE_TIMEOUT_S = 60.0
_MISSING = re.compile(r"missing ranks: \{(?P<ranks>[\d, ]+)\}")
_CULPRIT = re.compile(r"Culprit rank (?P<rank>\d+)")
_MISMATCH = re.compile(r"Error type: \w*(?:TYPE|SIZE_OR_SYNTAX|DTYPE)_MISMATCH")


def culprits_in(words: str) -> tuple[int, ...] | None:
    """The ranks that the analyzer calls missing in its first finding, or else those that it calls culprits."""
    if found := _MISSING.search(words):
        return tuple(sorted(int(rank) for rank in found["ranks"].split(",")))
    return tuple(sorted({int(found["rank"]) for found in _CULPRIT.finditer(words)})) or None


def is_mismatch(words: str) -> bool:
    """Whether it says that the ranks called different things."""
    return _MISMATCH.search(words) is not None


def last_line(words: str) -> str:
    """Where a traceback says what it is."""
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def with_groups(dumps: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The same dumps, their groups listed under the names that the entries use instead of under ''.

    The first group has the members that the list tells; of another one they are the ranks that used it.
    """
    users: dict[tuple[str, str], set[int]] = defaultdict(set)
    told = set(dumps)
    for rank, dump in dumps.items():
        told |= set(ast.literal_eval(dump["pg_config"].get("", {}).get("ranks", "[]")))
        for entry in dump["entries"]:
            users[tuple(entry["process_group"])].add(rank)
    members = {group: told if group[1] == "default_pg" else ranks for group, ranks in users.items()}
    config = {
        rank: {
            name: {"name": name, "desc": desc, "ranks": str(sorted(ranks))}
            for (name, desc), ranks in members.items()
            if rank in ranks
        }
        for rank in dumps
    }
    return {rank: {**dump, "pg_config": config[rank]} for rank, dump in dumps.items()}


def _fetch(port_file: Path) -> dict[str, Any] | str:
    """One rank's dump; or why not."""
    url = f"http://localhost:{port_file.read_text()}/handler/fr_trace_json"
    try:
        with urllib.request.urlopen(url, data=b"", timeout=DUMP_TIMEOUT_S) as answer:
            return {"entries": [], **json.load(answer)}
    except (OSError, ValueError) as error:
        return str(error)


def _ask(folder: Path, kept: Path, *, repair: bool) -> Outcome:
    asked_at = time.time()
    ports = {int(path.name.removeprefix("port_")): path for path in folder.glob("port_*")}
    with ThreadPoolExecutor(max(len(ports), 1)) as pool:
        came = dict(zip(ports, pool.map(_fetch, ports.values()), strict=True))
    dumps = {rank: dump for rank, dump in came.items() if not isinstance(dump, str)}
    failed = {rank: reason for rank, reason in came.items() if isinstance(reason, str)}
    for rank, dump in (with_groups(dumps) if repair else dumps).items():
        (kept / f"rank_{rank}").write_bytes(pickle.dumps(dump))
    words = _analyze(kept, ["--allow-incomplete-ranks"] if failed else [])
    (folder / "torchfrtrace.txt").write_text(words)
    culprits = culprits_in(words)
    answered = time.time() if culprits is not None else None
    return Outcome(
        alarm_at=answered,
        named_at=answered,
        last_progress=asked_at,
        culprits=culprits,
        status=Status.HANG.value if culprits is not None else None,
        cause=Cause.COLLECTIVE_MISMATCH.value if is_mismatch(words) else None,
        asked=True,
        says=f"{last_line(words)} ({time.time() - asked_at:.1f} s)"
        + (f"; no dump of {failed}" if failed else ""),
    )


def _analyze(dumps: Path, options: list[str]) -> str:
    torchfrtrace = os.path.join(os.path.dirname(sys.executable), "torchfrtrace")
    try:
        done = subprocess.run(
            [torchfrtrace, *options, "--prefix", "rank_", str(dumps)],
            capture_output=True,
            text=True,
            timeout=ANALYZE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {ANALYZE_TIMEOUT_S:.0f} s"
    return done.stdout + done.stderr


def run(scenario: Scenario, params: Params, folder: Path, *, repair: bool) -> Outcome:
    """The job with a worker server in every rank; asked when it stands still."""
    if scenario.starts_itself:
        return Outcome(cannot=STARTS_ITSELF)
    if scenario.own_network:
        return Outcome(cannot="the ranks' servers are in a network of their own, which is down")
    env = {"TORCH_FR_BUFFER_SIZE": "2000", "HANGBENCH_FOLDER": str(folder.resolve())}
    with running(through("recorder", scenario, params), folder, env) as job:
        return ask_when_still(job, scenario, folder, lambda _job, kept: _ask(folder, kept, repair=repair))


AS_SHIPPED = Tool(
    name="torchfrtrace (torch)",
    version=lambda: version("torch"),
    settings=f"TORCH_FR_BUFFER_SIZE=2000; a wrapper starts torch's worker server in every rank; dumps are fetched when "
    f"the job has stood still for {STILL_S:.0f} s, --allow-incomplete-ranks if one did not answer; the analyzer as it "
    "is, which raises KeyError on every dump of gloo",
    run=partial(run, repair=False),
)
REPAIRED = replace(
    AS_SHIPPED,
    name="torchfrtrace, dumps repaired",
    settings="the same, but each dump's pg_config is rekeyed from '' to the groups that its entries name before the "
    "analyzer sees it",
    run=partial(run, repair=True),
)
