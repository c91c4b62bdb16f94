"""Members called what does not fit together, and their framework refused it: all die of one error, at different lines.

The line that fewer of them were at is named; of equals both. Where all were at one line the error alone tells, and
whoever raised it first is named as after any fault (fault.py). Never here: members that live and hang (mismatch.py).
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.death_words import death_lines
from ddetect.correlate.rules.mismatch import fewer
from ddetect.correlate.scene import Scene
from ddetect.model import Cause, Departure, Gone, Proof, Status, Where
from ddetect.model.claims import CallsRefused
from ddetect.model.deeds import Act, CallMade, Deed, Side


def calls_refused(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Who was where, if every one that died of it tells its line."""
    refused = [
        gone
        for gone in deaths
        if gone.how is Departure.RAISED and scene.framework.refuses_calls(gone.exception)
    ]
    at: dict[Where, list[Gone]] = {}
    for gone in refused:
        where = scene.whose.where(gone.where)
        if where is None:
            return []
        at.setdefault(where, []).append(gone)
    if len(at) < 2:
        return []
    few = fewer({where: len(several) for where, several in at.items()}, scene.count_ranks - len(refused))
    named = [(gone, where) for where in at if where in few for gone in at[where]]
    if not named:
        return []
    op = scene.framework.operation(None).name
    sides = tuple(
        Side(tuple(sorted(gone.rank for gone in several)), CallMade(op), where)
        for where, several in sorted(at.items(), key=lambda side: (len(side[1]), side[1][0].rank))
    )
    culprits = tuple(
        replace(
            culprit(scene, gone.rank, Deed(Act.RAISED, said=gone.exception), where=where, whole=True),
            pid=gone.pid,
        )
        for gone, where in named
    )
    # The error of those that were struck says most; of the others it came from them.
    said = min(named, key=lambda one: (len(one[0].exception), one[0].rank))[0].exception
    factors = [confidence.TIE] if len(few) == len(at) else []
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.COLLECTIVE_MISMATCH, Proof.STRUCTURAL,
            confidence.times(confidence.MISMATCH, *factors),
            (CallsRefused(sides, tuple(sorted(gone.rank for gone, _ in named)), said),), culprits,
            death_lines(deaths, scene.framework),
        )
    ]  # fmt: skip
