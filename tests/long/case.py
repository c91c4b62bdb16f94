"""What one run of the exam is: a program, how it is started and how long it takes, and the truth about it. Pure.

Enters: nothing but a program's own text, searched for `# <- stuck here`. Leaves: `Case`, and the table of limits by
which its alarm is measured. Never here: the cases (catalogue.py), how a job is started (starting.py).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from ddetect.model import Cause
from ddetect.scenarios.scenario import MARKER

PROGRAMS = Path(__file__).with_name("programs")
TWIN_PATIENCE_S = 30.0
STRUCTURAL_S = 10.0
SLACK_S = 5.0  # beyond any limit of an alarm


class Suite(Enum):
    """What is wanted of ddetect."""

    HEALTHY = "healthy"  # silence
    HANG = "hang"  # at default settings: who, where, and in time
    TWIN = "twin"  # a healthy kind that hangs while something goes on beside it: in time all the same


class Started(Enum):
    """By what the job is started."""

    TORCHRUN = "torchrun"
    WORKERS = "TensorFlow, two workers"
    CHIEF = "TensorFlow, a chief and a worker"
    ALONE = "TensorFlow, two replicas in one process"


class Situation(Enum):
    """The rows of the one table of limits, as far as a hang can be in them."""

    STRUCTURAL = "structural"
    STILL = "nothing moves"
    POLLS = "polls"  # and: undecided, partly unread
    RUNS = "runs"  # and: several ranks, and nobody waits for another


class Frozen(Enum):
    """Whom the runner stops for a while."""

    NOBODY = "nobody"
    JOB = "the job"
    ALL = "the job, its launcher and ddetect"
    RANK = "one rank, for good"


@dataclass(frozen=True)
class Case:
    """One program as it is run once. Durations are those of the real pace; `shorter` divides them."""

    name: str
    suite: Suite
    kind: str  # in the words of the issue
    program: str
    options: tuple[str, ...] = ()
    started: Started = Started.TORCHRUN
    lasts_s: float = 0.0  # healthy: to its end; else: until it hangs
    pace_s: float = 0.0  # the longest usual gap there; 0: there is no history
    rank: int = 1  # who does what only one does, and who hangs
    functions: tuple[str, ...] = ()  # where it may be seen to hang
    causes: tuple[Cause, ...] = ()  # what may be said of it
    situation: Situation = Situation.STILL
    noise: str = ""
    shorter: float = 1.0
    frozen: Frozen = Frozen.NOBODY
    frozen_at_s: float = 0.0
    frozen_for_s: float = 0.0
    needs_cc: bool = False

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.suite is Suite.HEALTHY

    @property
    def tensorflow(self) -> bool:
        """Whether it trains with TensorFlow."""
        return self.started is not Started.TORCHRUN

    @property
    def path(self) -> Path:
        """The program."""
        return PROGRAMS / f"{self.program}.py"

    @cached_property
    def marked(self) -> frozenset[str]:
        """The functions of the program that have a line at which it may hang."""
        text = self.path.read_text()
        lines = [number for number, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(MARKER)]
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        return frozenset(
            one.name
            for one in functions
            if any(one.lineno <= line <= (one.end_lineno or one.lineno) for line in lines)
        )


def limit_s(situation: Situation, patience_s: float, gap_s: float) -> float:
    """The table: after how long an alarm is due, for a hang where the longest healthy gap was so long."""
    most_s = 10 * patience_s
    usual_s = min(max(patience_s, 3 * gap_s), most_s)
    return {
        Situation.STRUCTURAL: STRUCTURAL_S,
        Situation.STILL: usual_s,
        Situation.POLLS: min(3 * usual_s, most_s),
        Situation.RUNS: most_s,
    }[situation]


def suspicion_s(gap_s: float) -> float:
    """Within how long a hang is to be suspected: by what is usual; sooner or later where nothing is yet."""
    return 1.5 * gap_s + 6.0 if gap_s else 35.0
