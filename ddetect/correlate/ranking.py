"""Which findings name the verdict. Findings enter; the strongest leave, joined into one where several are equal.

Strength is precedence, then proof, then the rule's own weight, then how long the culprits have stood still. What is
equally strong is named together: no rank's number and no sentence ever chooses.
Never here: what a finding means (rules/), a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding
from ddetect.correlate.phrases import MOST_SAID, more_words, waiting_words
from ddetect.model import Cause, Proof

AS_LONG = 0.5
"""Who has stood still for at least this part of the longest time is as much a suspect."""

MOST_EVIDENCE = 24


def strongest(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those that are as strong as the first, the largest class of causes first; and the rest, stronger first."""
    ordered = sorted(findings, key=lambda finding: (_strength(finding), finding.says))
    alike = [finding for finding in ordered if _strength(finding) == _strength(ordered[0])]
    longest_s = max((finding.stands_s for finding in alike if not isnan(finding.stands_s)), default=0.0)
    equals = [finding for finding in alike if not finding.stands_s < AS_LONG * longest_s]  # nan: not known
    named = set(map(id, equals))
    rest = [finding for finding in ordered if id(finding) not in named]
    size = _sizes(equals)
    equals.sort(key=lambda finding: (-size[finding.cause], _name(finding.cause), _ranks([finding])))
    return equals, rest


def join(equals: Sequence[Finding]) -> Finding:
    """One finding that names all of them, with the cause of the first: that of the largest class."""
    first = equals[0]
    if len(equals) == 1:
        return first
    several = len({finding.cause for finding in equals}) > 1
    says, unsaid = _says(equals)
    share = max(1, MOST_EVIDENCE // len(equals))  # so that the first does not push the last out
    ages = [finding.stands_s for finding in equals if not isnan(finding.stands_s)]
    return replace(
        first,
        confidence=confidence.times(
            min(finding.confidence for finding in equals), *[confidence.SEVERAL_CAUSES] * several
        ),
        says=says,
        unsaid=unsaid,
        culprits=tuple(dict.fromkeys(culprit for finding in equals for culprit in finding.culprits)),
        evidence=tuple(dict.fromkeys(line for finding in equals for line in finding.evidence[:share])),
        held=tuple(dict.fromkeys(wait for finding in equals for wait in finding.held)),
        stands_s=max(ages, default=first.stands_s),
    )


def sentence(finding: Finding) -> str:
    """What is found, and who waits because of it."""
    held = sorted(finding.held, key=lambda wait: (-len(wait.waiters), wait.label))
    waiting = waiting_words(held, it="it" if len(_ranks([finding])) == 1 else "them")
    return "; ".join(part for part in (finding.says, more_words(finding.unsaid), waiting) if part)


def _strength(finding: Finding) -> tuple[int, bool, float, str]:
    return (
        finding.precedence,
        finding.proof is not Proof.STRUCTURAL,
        -finding.weight,
        finding.status.value,
    )


def _sizes(findings: Sequence[Finding]) -> dict[Cause | None, int]:
    """How many ranks each cause explains."""
    return {
        cause: len(_ranks([finding for finding in findings if finding.cause is cause]))
        for cause in {finding.cause for finding in findings}
    }


def _ranks(findings: Sequence[Finding]) -> list[int]:
    return sorted({culprit.rank for finding in findings for culprit in finding.culprits})


def _name(cause: Cause | None) -> str:
    return cause.value if cause is not None else ""


def _says(equals: Sequence[Finding]) -> tuple[str, tuple[int, ...]]:
    """The first sentences, and the ranks that none of them names."""
    said = list(dict.fromkeys(finding.says for finding in equals))
    told = [finding for finding in equals if finding.says in said[:MOST_SAID]]
    named = set(_ranks(told)).difference(rank for finding in told for rank in finding.unsaid)
    unsaid = tuple(rank for rank in _ranks(equals) if rank not in named)
    # Findings about operations name no rank: then they are counted.
    more = [f"{len(said) - MOST_SAID} more like them"] if len(said) > MOST_SAID and not unsaid else []
    return "; ".join([*said[:MOST_SAID], *more]), unsaid
