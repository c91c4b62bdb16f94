"""What a rule returns. Never here: rules, ranking (judge.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ddetect.model import Cause, Culprit, Proof, Status


class Precedence(IntEnum):
    """Which finding names the verdict: lower wins. The others stay evidence."""

    FIRST_FAULT = 1  # somebody died: whoever waits, waits for that
    PROCESS_STOPPED = 2
    CYCLE = 3
    MISMATCH = 4  # only of operations that everybody has entered: never entered comes before other signature
    NEVER_ENTERED = 5
    NEVER_LEFT = 6
    ALONE = 7
    NAMED_ONLY = 8  # we know who, not what


@dataclass(frozen=True, slots=True)
class Finding:
    """One explanation, complete in itself. `says` is the first half of the summary."""

    precedence: Precedence
    status: Status
    cause: Cause | None
    proof: Proof
    confidence: float
    says: str
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    weight: float = 0.0  # among findings of one precedence, the heavier wins
