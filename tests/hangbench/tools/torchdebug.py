"""torch.distributed.debug: a server in every rank and a page for all of them. It has no verdict: a person reads.

Its pages are opened at once, as in three tabs: Python stacks, py-spy stacks, Flight Recorder.
"""

from __future__ import annotations

import re
import socket
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import STILL_S, ask_when_still
from tests.hangbench.tools.through import STARTS_ITSELF, through
from tests.hangbench.tools.tool import Tool

PAGES = ("stacks", "pyspy_dump", "fr_trace")
PAGE_TIMEOUT_S = 75.0  # the server itself waits 60 s for a rank
_RANK = re.compile(r"<h2>Rank (?P<rank>\d+):.*?(?=<h2>|\Z)", re.DOTALL)


def ranks_shown(page: str) -> tuple[int, ...]:
    """The ranks whose part of a page holds something else than a failure."""
    return tuple(
        int(part["rank"])
        for part in _RANK.finditer(page)
        if "Failed to fetch" not in part[0] and "<pre>" in part[0]
    )


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        port: int = free.getsockname()[1]
        return port


def _open(port: int, name: str) -> tuple[str, str, float]:
    """A page, or what came instead of it; and how long it took."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://localhost:{port}/{name}", timeout=PAGE_TIMEOUT_S) as answer:
            page, failure = answer.read().decode(errors="replace"), ""
    except urllib.error.HTTPError as error:
        page, failure = "", f"{error.code} {error.reason}"
    except OSError as error:
        page, failure = "", str(error)
    return page, failure, time.monotonic() - began


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """The job with a debug server in every rank; its pages are opened when it stands still."""
    if scenario.starts_itself:
        return Outcome(cannot=STARTS_ITSELF)
    if scenario.own_network:
        return Outcome(cannot="its page is in a network of its own, which is down")
    port = _free_port()

    def ask(job: Job, kept: Path) -> Outcome:
        asked_at = time.time()
        with ThreadPoolExecutor(len(PAGES)) as pool:
            came = dict(zip(PAGES, pool.map(lambda name: _open(port, name), PAGES), strict=True))
        for name, (page, failure, _) in came.items():
            (kept / f"{name}.html").write_text(page or failure)
        parts = [
            f"{name}: {failure or f'ranks {list(ranks_shown(page))}'} in {seconds:.1f} s"
            for name, (page, failure, seconds) in came.items()
        ]
        return Outcome(
            last_progress=asked_at,
            asked=True,
            says="; ".join(parts),
        )

    with running(through("debug_server", scenario, params), folder, {"HANGBENCH_PORT": str(port)}) as job:
        return ask_when_still(job, scenario, folder, ask)


TOOL = Tool(
    name="torch.distributed.debug",
    version=lambda: version("torch"),
    settings="a wrapper calls start_debug_server() in every rank; its pages "
    f"({', '.join(PAGES)}) are opened when the job has stood still for {STILL_S:.0f} s, and saved; "
    "a person reads them, it names nobody",
    run=run,
    tells_cause=False,
)
