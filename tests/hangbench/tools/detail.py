"""TORCH_DISTRIBUTED_DEBUG=DETAIL: torch compares what the ranks call before each collective, and times out by name.

It segfaults in DDP's constructor (torch 2.13.0, gloo), so only programs without DDP can run under it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from ddetect.model import Cause, Status
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.job import running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import HEALTHY_CAP_S
from tests.hangbench.tools.base import TIMEOUT_S, Tool
from tests.hangbench.tools.overhear import Answer, overhear
from tests.hangbench.tools.through import STARTS_ITSELF, through
from tests.hangbench.tools.torchrun_report import root_cause

PG_TIMEOUT_S = 20
NO_DDP = "hangbench: DistributedDataParallel segfaults under DETAIL"  # printed by wrappers/detail.py

_ALARM = re.compile(r"^(?:\[rank\d+\]: ?)?(?:[\w.]+Error|[\w.]+Exception)\b", re.MULTILINE)
_FAILED_TO_PASS = re.compile(
    r"^\[rank(?P<by>\d+)\]:.*\[Rank (?P<in_group>\d+)\]: Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier",
    re.MULTILINE,
)
_MISMATCH = re.compile(
    r"^\[rank(?P<by>\d+)\]:.*"
    r"Detected mismatch between collectives on ranks\. Rank (?P<in_group>\d+) is running collective: (?P<call>.*?), "
    r"but Rank (?P<other>\d+) is running collective: (?P<its_call>.*?)\.Collectives differ",
    re.MULTILINE,
)
_SEQUENCE = re.compile(r"SequenceNumber=\d+,? ?")
_ERROR = re.compile(r"^(?:\[rank\d+\]: ?)?(?P<words>[\w.]*(?:Error|Exception)\b.*)$", re.MULTILINE)


def is_alarm(words: str) -> bool:
    """Whether a rank raised."""
    return NO_DDP not in words and _ALARM.search(words) is not None


def read(words: str) -> Answer:
    """Who differs from the others, by the fingerprints; or who did not come; or whom torchrun saw fail first."""
    if "Detected mismatch between collectives" in words:
        return Answer(
            culprits=_minority(words),
            status=Status.HANG.value,
            cause=Cause.COLLECTIVE_MISMATCH.value,
            says=_line_with(words, "Detected mismatch between collectives"),
        )
    # Ranks are counted within the group: a message whose sender is another there than in the job cannot be mapped.
    missing = {
        int(rank)
        for found in _FAILED_TO_PASS.finditer(words)
        if found["by"] == found["in_group"]
        for rank in re.findall(r"\d+", found["ranks"])
    }
    if missing:
        return Answer(
            culprits=tuple(sorted(missing)),
            status=Status.HANG.value,
            says="; ".join(dict.fromkeys(found[0] for found in _FAILED_TO_PASS.finditer(words)))[:600],
        )
    first = _ERROR.search(words)
    if first and re.search(r"[Tt]imed out|[Tt]imeout|monitoredBarrier", words):
        # A rank that gave up waiting is not the one at fault, though torchrun saw it fail first: nobody is named.
        return Answer(status=Status.HANG.value, says=first["words"])
    return root_cause(words)


def _minority(words: str) -> tuple[int, ...] | None:
    """Whoever runs something else than the most; of two neither is the odd one, and both are named.

    What a rank says about itself goes before what another says about it: the other's fingerprint is often garbled.
    """
    calls: dict[int, str] = {}
    for found in _MISMATCH.finditer(words):
        if found["by"] == found["in_group"]:
            calls.setdefault(int(found["other"]), found["its_call"])
    for found in _MISMATCH.finditer(words):
        calls[int(found["by"])] = found["call"]
    groups: dict[str, set[int]] = defaultdict(set)
    for rank, call in calls.items():
        groups[_SEQUENCE.sub("", call)].add(rank)
    most = max((len(group) for group in groups.values()), default=0)
    largest = [group for group in groups.values() if len(group) == most]
    odd = set(calls) - largest[0] if len(largest) == 1 else set(calls)
    return tuple(sorted(odd)) or None


def _line_with(words: str, what: str) -> str:
    return next(line for line in words.splitlines() if what in line).strip()[:600]


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Until it raises; a healthy job until its end."""
    if scenario.starts_itself:
        return Outcome(cannot=STARTS_ITSELF)
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "HANGBENCH_TIMEOUT_S": str(PG_TIMEOUT_S)}
    timeout_s = HEALTHY_CAP_S if scenario.status is Status.HEALTHY else TIMEOUT_S
    with running(through("detail", scenario, params), folder, env) as job:
        heard = overhear(job, is_alarm, read, timeout_s)
        if NO_DDP in job.words:
            return Outcome(cannot="DistributedDataParallel segfaults under DETAIL (torch 2.13.0, gloo)")
        code = job.process.poll()
    if heard.alarm_at is None:
        return Outcome(
            last_progress=heard.last_progress, says="" if code == 0 else f"nothing (exit code {code})"
        )
    return Outcome(
        alarm_at=heard.alarm_at,
        named_at=heard.named_at,
        last_progress=heard.last_progress,
        culprits=heard.answer.culprits,
        status=heard.answer.status,
        cause=heard.answer.cause,
        evidence="traceback of the ranks that raised",
        says=heard.answer.says,
    )


TOOL = Tool(
    name="TORCH_DISTRIBUTED_DEBUG=DETAIL",
    version=lambda: version("torch"),
    settings=f"process-group timeout {PG_TIMEOUT_S} s (default 30 minutes), set by a wrapper where the program would "
    "pass timeout=; programs with DistributedDataParallel cannot run; of differing fingerprints the minority is taken "
    "as the culprit",
    run=run,
)
