"""What a tool is to the bench, and how long any of them is waited for: the same for all, whatever the truth is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.outcome import Outcome
from tests.live.ends import End

PATIENCE_S = 15.0  # of ddetect, for hanging and healthy jobs alike; a twentieth of the default
PEER_LIMIT_S = 35  # of tools with a fixed limit; a healthy job stands still for 28 s at most
WATCH_S = 200.0  # for an alarm; before the first step ddetect suspects after 30 s, and waits five times its patience
STAND_STILL_S = 150.0  # until a job stands still, and a tool is asked; with a restart, on a busy machine
HEALTHY_CAP_S = 180.0  # for a healthy job to end

KEPT = "kept"  # the folder in a run's folder where a tool, or the person who uses it, puts what it saw
AFTER = "after"  # and where it lies as it was when all was over


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` does one scenario and cleans up; `folder` is empty, and what is left in it may be kept.

    A tool that is scored by what it leaves behind after the job's end has `run_to_end` instead, and is told the end.
    """

    name: str
    version: Callable[[], str]
    settings: str  # what was set and what had to be changed in the user's program, in one sentence
    run: Callable[[Scenario, Params, Path], Outcome] | None = None
    run_to_end: Callable[[Scenario, Params, Path, End | None], Outcome] | None = None
    attaches: bool = False  # it comes when the job runs already: what ends by itself must be struck late
    tells_cause: bool = True  # False: it has no words for causes
    suspects: bool = False  # it writes down what it may take back later
    speaks_in_log: bool = False  # the job's log is where it leaves what it saw
    frameworks: tuple[str, ...] = ("torch",)
    hears_pause: bool = False  # a program can tell it of a pause (`ddetect_probe.pause`)
