"""NVIDIA's ft_launcher in torchrun's place: a monitor per rank that wants heartbeats, and kills when they stay away."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

from ddetect.model import Cause, Status
from ddetect.scenarios.catalogue import FOLDER, Params, Scenario
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.overhear import Answer, Speaker, listen
from tests.hangbench.tools.through import STARTS_ITSELF, through
from tests.hangbench.tools.tool import PEER_LIMIT_S, Tool

INITIAL_S, CHECK_S = 60, 1
NO_RESTARTS = "the bench runs it without restarts, as its answer to a hang is one; this job needs a restart"
_MONITOR = re.compile(
    r"\[WARNING\] \[\S*?:(?P<rank>\d+)\] (?P<words>Did not get (?:initial|subsequent) heartbeat.*)"
)
_FAILED = re.compile(
    r"\[ERROR\] \[\S+\] (?P<words>failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+))"
)


def flagged(words: str) -> tuple[int, ...]:
    """The ranks whose monitors fired, in that order."""
    return tuple(dict.fromkeys(int(found["rank"]) for found in _MONITOR.finditer(words)))


def is_alarm(words: str) -> bool:
    """A monitor fired, or the launcher saw a rank fail."""
    return bool(flagged(words)) or _FAILED.search(words) is not None


def read(words: str) -> Answer:
    """The rank of the launcher's error: the first to fail, by its times. Its last line lists every rank that it ended.

    If monitors fired it was a hang, whatever killed the ranks in the end.
    """
    error, monitor = _FAILED.search(words), _MONITOR.search(words)
    culprits = (int(error["rank"]),) if error else None
    said = error["words"] if error else ""
    if monitor:
        said = f"monitors of ranks {list(flagged(words))}: {monitor['words']} {said}".strip()
        return Answer(culprits=culprits, status=Status.HANG.value, says=said)
    if not error:
        return Answer()
    cause = Cause.KILLED_BY_SIGNAL if int(error["code"]) < 0 else Cause.PYTHON_EXCEPTION
    return Answer(culprits=culprits, status=Status.STOPPED.value, cause=cause.value, says=said)


def command(scenario: Scenario, params: Params) -> list[str]:
    """torchrun's command line with ft_launcher in its place."""
    words = through("heartbeats", scenario, params)
    place = words.index("torch.distributed.run")
    launcher = [
        os.path.join(os.path.dirname(sys.executable), "ft_launcher"),
        "--max-restarts", "0",
        "--ft-initial-rank-heartbeat-timeout", str(INITIAL_S),
        "--ft-rank-heartbeat-timeout", str(PEER_LIMIT_S),
        "--ft-workload-check-interval", str(CHECK_S),
        "--ft-enable-nic-monitor", "False",
    ]  # fmt: skip
    return [*words[: place - 2], *launcher, *words[place + 1 :]]


def has_optimizer(scenario: Scenario) -> bool:
    """Whether the program steps one, itself or through what the programs share."""
    own = scenario.path.read_text()
    shared = (FOLDER / "training.py").read_text()
    return "optim." in own or (
        "optim." in shared and re.search(r"training\.(?:run|train)\b", own) is not None
    )


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Until the launcher gave up; a healthy job until its end."""
    if scenario.starts_itself:
        return Outcome(cannot=STARTS_ITSELF)
    if scenario.torchrun:
        return Outcome(cannot=NO_RESTARTS)
    env = {"HANGBENCH_BEAT": "steps" if has_optimizer(scenario) else "collectives"}
    return listen(command(scenario, params), scenario, folder, Speaker(is_alarm, read), env)


TOOL = Tool(
    name="ft_launcher (nvidia-resiliency-ext)",
    version=lambda: version("nvidia-resiliency-ext"),
    settings=f"first heartbeat within {INITIAL_S} s, then every {PEER_LIMIT_S} s (defaults: 60 and 45 minutes), "
    f"checked every {CHECK_S} s, no restarts; a wrapper sends a heartbeat after each optimizer step, or after each "
    "collective of a program without an optimizer",
    run=run,
    speaks_in_log=True,
)
