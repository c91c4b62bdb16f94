"""What a tool is to the bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.outcome import Outcome

PATIENCE_S = 6.0  # of ddetect, for causes that only time can prove
HEALTHY_PATIENCE_S = 15.0  # a quarter of the default
TIMEOUT_S = 90.0  # no tool is waited for longer than that


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` does one scenario and cleans up; `folder` is empty, and what is left in it may be kept."""

    name: str
    version: Callable[[], str]
    settings: str  # what was set and what had to be changed in the user's program, in one sentence
    run: Callable[[Scenario, Params, Path], Outcome]
    attaches: bool = False  # it comes when the job runs already: what ends by itself must be struck late
