"""The final error of torchrun, which ft_launcher prints too: who failed first, and how. Pure."""

from __future__ import annotations

import re

from ddetect.model import Cause, Status
from tests.hangbench.tools.overhear import Answer

_ROOT = re.compile(
    r"Root Cause \(first observed failure\):.*?^\s*rank\s*: (?P<rank>\d+).*?^\s*exitcode\s*: (?P<code>-?\d+)",
    re.DOTALL | re.MULTILINE,
)


def root_cause(words: str) -> Answer:
    """Whom it calls the root cause; a signal and an exit code are causes in ddetect's words too."""
    found = _ROOT.search(words)
    if not found:
        return Answer()
    code = int(found["code"])
    return Answer(
        culprits=(int(found["rank"]),),
        status=Status.STOPPED.value,
        cause=(Cause.KILLED_BY_SIGNAL if code < 0 else Cause.PYTHON_EXCEPTION).value,
        says=f"Root Cause (first observed failure): rank {found['rank']}, exitcode {code}",
    )
