"""What a rule returns, and how strong it is. Never here: rules, choosing (ranking.py), English (ddetect.report)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ddetect.correlate.wait import Wait
from ddetect.model import Cause, Culprit, Open, Proof, Status
from ddetect.model.claims import Claim

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
class Weight:
    """What a rule says of its finding beside others of its precedence and proof; what it leaves out is equal."""

    moves: bool = False  # something of those that are named still moves
    likely: bool = False  # only likely: others that are certain come first
    size: int = 0  # how many it explains


@dataclass(frozen=True, slots=True)
class Finding:
    """One explanation, complete in itself: what is claimed, who is named, and why."""

    precedence: Precedence
    status: Status
    cause: Cause | None
    proof: Proof
    confidence: float
    claims: tuple[Claim, ...]
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    weight: Weight = Weight()  # among findings of one precedence and proof; equals are joined
    held: tuple[Wait, ...] = ()  # the operations that wait for the culprits
    stands_s: float = AGE_UNKNOWN  # how long the longest of the culprits has stood still
    left_open: Open | None = None  # nobody is named: who is left open, and between what
