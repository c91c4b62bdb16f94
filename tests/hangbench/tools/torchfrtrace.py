"""torch's Flight Recorder and its analyzer: dumps of every rank when the job stands still, then `torchfrtrace DIR`.

gloo writes no dump by itself, so each rank runs torch's worker server, which is asked for the recorder's content.
The analyzer wants pickles, the server gives JSON of the same fields.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from ddetect.model import Cause, Status
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import STILL_S, ask_when_still
from tests.hangbench.tools.base import Tool
from tests.hangbench.tools.through import STARTS_ITSELF, through

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


def _fetch(port_file: Path, to: Path) -> str:
    """One rank's dump on disk; or why not."""
    url = f"http://localhost:{port_file.read_text()}/handler/fr_trace_json"
    try:
        with urllib.request.urlopen(url, data=b"", timeout=DUMP_TIMEOUT_S) as answer:
            dump = json.load(answer)
    except (OSError, ValueError) as error:
        return str(error)
    to.write_bytes(pickle.dumps({"entries": [], **dump}))
    return ""


def _ask(job: Job, folder: Path) -> Outcome:
    asked_at = time.time()
    dumps = folder / "dumps"
    dumps.mkdir()
    ports = {int(path.name.removeprefix("port_")): path for path in folder.glob("port_*")}
    with ThreadPoolExecutor(max(len(ports), 1)) as pool:
        failures = dict(
            zip(ports, pool.map(lambda rank: _fetch(ports[rank], dumps / f"rank_{rank}"), ports), strict=True)
        )
    got = len(list(dumps.iterdir()))
    failed = {rank: failure for rank, failure in failures.items() if failure}
    words = _analyze(dumps, [] if got == len(ports) else ["--allow-incomplete-ranks"])
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
        evidence=f"recorder dumps of {got} of {len(ports)} ranks" if got else "",
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


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """The job with a worker server in every rank; asked when it stands still."""
    if scenario.starts_itself:
        return Outcome(cannot=STARTS_ITSELF)
    if scenario.own_network:
        return Outcome(cannot="the ranks' servers are in a network of their own, which is down")
    env = {"TORCH_FR_BUFFER_SIZE": "2000", "HANGBENCH_FOLDER": str(folder.resolve())}
    with running(through("recorder", scenario, params), folder, env) as job:
        return ask_when_still(job, scenario, folder, _ask)


TOOL = Tool(
    name="torchfrtrace (torch)",
    version=lambda: version("torch"),
    settings=f"TORCH_FR_BUFFER_SIZE=2000; a wrapper starts torch's worker server in every rank; dumps are fetched when "
    f"the job has stood still for {STILL_S:.0f} s, --allow-incomplete-ranks if one did not answer",
    run=run,
)
