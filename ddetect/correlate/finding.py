"""What a rule returns. Never here: rules, ranking (ranking.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ddetect.correlate.wait import Wait
from ddetect.model import Cause, Culprit, Proof, Status

AGE_UNKNOWN = float("nan")


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
    """One explanation, complete in itself. `says` is the first half of the summary, `unsaid` ends it; `held` makes the
    second.
    """

    precedence: Precedence
    status: Status
    cause: Cause | None
    proof: Proof
    confidence: float
    says: str
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    weight: float = 0.0  # among findings of one precedence and proof, the heavier wins; equals are joined
    held: tuple[Wait, ...] = ()  # the operations that wait for the culprits
    stands_s: float = AGE_UNKNOWN  # how long the longest of the culprits has stood still
    unsaid: tuple[int, ...] = ()  # culprits that `says` leaves out, to stay a sentence
