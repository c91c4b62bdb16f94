"""Plain torchrun and nothing else: its final error says who failed first, and how. About hangs it says nothing."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from ddetect.model import Cause, Status
from ddetect.scenarios.catalogue import Params, Scenario, command
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.overhear import Answer, Speaker, listen
from tests.hangbench.tools.tool import Tool

WAIT_S = 60.0  # its report comes when a rank has died, or never
PYTHON_RAISED = 1  # the exit code of a Python program with an exception that nobody caught
_ROOT = re.compile(
    r"Root Cause \(first observed failure\):.*?^\s*rank\s*: (?P<rank>\d+).*?^\s*exitcode\s*: (?P<code>-?\d+)",
    re.DOTALL | re.MULTILINE,
)


def is_alarm(words: str) -> bool:
    """Whether the report is there."""
    return _ROOT.search(words) is not None


def read(words: str) -> Answer:
    """Whom it calls the root cause; a signal and the exit code of an exception are causes in ddetect's words too."""
    found = _ROOT.search(words)
    if not found:
        return Answer()
    code = int(found["code"])
    cause = Cause.PYTHON_EXCEPTION.value if code == PYTHON_RAISED else None
    return Answer(
        culprits=(int(found["rank"]),),
        status=Status.STOPPED.value,
        cause=Cause.KILLED_BY_SIGNAL.value if code < 0 else cause,
        says=f"Root Cause (first observed failure): rank {found['rank']}, exitcode {code}",
    )


def run(scenario: Scenario, params: Params, folder: Path) -> Outcome:
    """Until its report; a healthy job until its end."""
    if scenario.starts_itself:
        return Outcome(cannot="the program starts its own ranks, without torchrun")
    return listen(command(scenario, params), scenario, folder, Speaker(is_alarm, read, WAIT_S))


TOOL = Tool(
    name="torchrun alone",
    version=lambda: version("torch"),
    settings="no tool at all, program unchanged; its `Root Cause` report on a job that died is its answer (a signal, "
    f"or exit code {PYTHON_RAISED} for an exception), waited for {WAIT_S:.0f} s",
    run=run,
    speaks_in_log=True,
)
