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
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.overhear import Answer, Speaker, listen
from tests.hangbench.tools.through import STARTS_ITSELF, through
from tests.hangbench.tools.tool import PEER_LIMIT_S, Tool

NO_DDP = "hangbench: DistributedDataParallel segfaults under DETAIL"  # wrappers/detail.py is told to print it
TWO_ATTEMPTS = "what the first attempt raised is in the same log as the second"

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
_MISMATCHED = "Detected mismatch between collectives"
_GAVE_UP = re.compile(
    r"^(?:\[rank\d+\]: ?)?(?P<words>[\w.]*(?:Error|Exception)\b.*(?:[Tt]imed out|[Tt]imeout|monitoredBarrier).*)$",
    re.MULTILINE,
)


def is_alarm(words: str) -> bool:
    """Whether DETAIL or the groups' timeout spoke; not the program's own exceptions, nor torchrun's report."""
    return NO_DDP not in words and (_MISMATCHED in words or _GAVE_UP.search(words) is not None)


def read(words: str) -> Answer:
    """Who differs from the others, by the fingerprints; or who did not come."""
    if _MISMATCHED in words:
        return Answer(
            culprits=_minority(words),
            status=Status.HANG.value,
            cause=Cause.COLLECTIVE_MISMATCH.value,
            says=_line_with(words, _MISMATCHED),
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
    # A rank that gave up waiting is not the one at fault, though torchrun saw it fail first: nobody is named.
    first = _GAVE_UP.search(words)
    return Answer(status=Status.HANG.value, says=first["words"]) if first else Answer()


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
    if scenario.incidents > 1:
        return Outcome(cannot=TWO_ATTEMPTS)
    env = {
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
        "HANGBENCH_TIMEOUT_S": str(PEER_LIMIT_S),
        "HANGBENCH_NO_DDP": NO_DDP,
    }
    outcome = listen(through("detail", scenario, params), scenario, folder, Speaker(is_alarm, read), env)
    if NO_DDP in (folder / "stderr").read_text(errors="replace"):
        return Outcome(cannot="DistributedDataParallel segfaults under DETAIL (torch 2.13.0, gloo)")
    return outcome


TOOL = Tool(
    name="TORCH_DISTRIBUTED_DEBUG=DETAIL",
    version=lambda: version("torch"),
    settings=f"process-group timeout {PEER_LIMIT_S} s (default 30 minutes), set by a wrapper where the program would "
    "pass timeout=; programs with DistributedDataParallel cannot run; of differing fingerprints the minority is taken "
    "as the culprit",
    run=run,
    speaks_in_log=True,
)
