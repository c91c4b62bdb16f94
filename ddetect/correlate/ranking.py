"""Which findings name the verdict. Findings enter; the strongest leave, joined into one where several are equal.

Strength is one typed key: precedence, proof, the rule's own weight; then how long the culprits have stood still. What
is equally strong is named together: no member's number and no sentence ever chooses.
Never here: what a finding means (rules/), a snapshot, English.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import NamedTuple

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.model import Cause, Proof

AS_LONG = 0.5
"""Who has stood still for at least this part of the longest time is as much a suspect."""

MOST_EVIDENCE = 24

_NUMBER = {cause: number for number, cause in enumerate(Cause)}


class Strength(NamedTuple):
    """How strong a finding is; the least is the strongest, field by field."""

    precedence: Precedence
    needs_time: bool  # only time proves it
    moves: bool
    likely: bool
    smaller: int  # minus its size


def strength(finding: Finding) -> Strength:
    """The one place that says what is stronger than what. Its precedence settles a finding's status too."""
    weight = finding.weight
    needs_time = finding.proof is not Proof.STRUCTURAL
    return Strength(finding.precedence, needs_time, weight.moves, weight.likely, -weight.size)


class _Place(NamedTuple):
    """The order in which equals are told, the larger class of causes first. It chooses nobody."""

    smaller: int
    cause: int
    members: tuple[int, ...]


def strongest(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those that are as strong as the first, the largest class of causes first; and the rest, stronger first."""
    size = _sizes(findings)
    ordered = sorted(findings, key=lambda finding: (strength(finding), _place(finding, size)))
    alike = [finding for finding in ordered if strength(finding) == strength(ordered[0])]
    longest_s = max((finding.stands_s for finding in alike if not isnan(finding.stands_s)), default=0.0)
    equals = [finding for finding in alike if not finding.stands_s < AS_LONG * longest_s]  # nan: not known
    named = set(map(id, equals))
    rest = [finding for finding in ordered if id(finding) not in named]
    size = _sizes(equals)
    equals.sort(key=lambda finding: _place(finding, size))
    return equals, rest


def join(equals: Sequence[Finding]) -> Finding:
    """One finding that names all of them, with the cause of the first: that of the largest class."""
    first = equals[0]
    if len(equals) == 1:
        return first
    several = len({finding.cause for finding in equals}) > 1
    share = max(1, MOST_EVIDENCE // len(equals))  # so that the first does not push the last out
    ages = [finding.stands_s for finding in equals if not isnan(finding.stands_s)]
    return replace(
        first,
        confidence=confidence.times(
            min(finding.confidence for finding in equals), *[confidence.SEVERAL_CAUSES] * several
        ),
        claims=tuple(dict.fromkeys(claim for finding in equals for claim in finding.claims)),
        culprits=tuple(dict.fromkeys(culprit for finding in equals for culprit in finding.culprits)),
        evidence=tuple(dict.fromkeys(line for finding in equals for line in finding.evidence[:share])),
        held=tuple(dict.fromkeys(wait for finding in equals for wait in finding.held)),
        stands_s=max(ages, default=first.stands_s),
    )


def named_by(findings: Sequence[Finding]) -> tuple[int, ...]:
    """The members that these name, in order, once each."""
    return tuple(sorted({culprit.member for finding in findings for culprit in finding.culprits}))


def _place(finding: Finding, size: dict[Cause | None, int]) -> _Place:
    return _Place(-size[finding.cause], _number(finding.cause), named_by([finding]))


def _number(cause: Cause | None) -> int:
    return -1 if cause is None else _NUMBER[cause]


def _sizes(findings: Sequence[Finding]) -> dict[Cause | None, int]:
    """How many members each cause explains."""
    return {
        cause: len(named_by([finding for finding in findings if finding.cause is cause]))
        for cause in {finding.cause for finding in findings}
    }
