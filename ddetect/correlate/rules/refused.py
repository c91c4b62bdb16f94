"""Members called what does not fit together, and their framework refused it: all die of one error, at different lines.

The line that fewer of them were at is named; of equals both. Where all were at one line, or the others have not raised
yet, nobody is named: the error comes to everybody, and who raised it first means nothing. Never here: members that
live and hang (mismatch.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.consequence import last_words
from ddetect.correlate.rules.death_words import death_lines
from ddetect.correlate.rules.mismatch import fewer
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import user_line
from ddetect.frameworks.kinds import Kind
from ddetect.model import Cause, Departure, Frame, Gone, Proof, Status, Where, rank_of
from ddetect.model.claims import CallsRefused
from ddetect.model.deeds import Act, CallMade, Deed, OpLabel, Side


@dataclass(frozen=True, slots=True)
class _Raised:
    rank: int
    said: str  # empty: it lives, and is in its call
    where: Where | None


def calls_refused(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Who was where, of those that died of it or are on their way out."""
    told = _last_words(scene, deaths)
    refused = [one for one in told if scene.framework.refuses_calls(one.said)]
    if not refused or scene.count_ranks < 2:
        return []
    # Who dies of the others' end, or still waits for them, is in a call too: at a line of its own, or at one of theirs.
    told += _inside(scene, {one.rank for one in told})
    at: dict[Where, list[_Raised]] = {}
    for one in told:
        if one.where is not None:
            at.setdefault(one.where, []).append(one)
    untold = scene.count_ranks - sum(map(len, at.values()))
    few = fewer({where: len(several) for where, several in at.items()}, untold) if len(at) > 1 else set()
    named = [one for where in at if where in few for one in at[where]]
    op = scene.framework.operation(None).name
    sides = tuple(
        Side(tuple(sorted(one.rank for one in several)), CallMade(op), where, seen=not several[0].said)
        for where, several in sorted(at.items(), key=lambda side: (len(side[1]), side[1][0].rank))
    )
    culprits = tuple(culprit(scene, one.rank, _deed(one, op), where=one.where, whole=True) for one in named)
    # It is handed on from one to the other, each adding words of its own: the shortest is the nearest.
    said = min(refused, key=lambda one: (len(one.said), one.rank)).said
    factors = [confidence.TIE] if len(few) == len(at) else []
    proof = Proof.STRUCTURAL if named or untold <= 0 else Proof.TIME
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.COLLECTIVE_MISMATCH, proof,
            confidence.times(confidence.MISMATCH, *factors),
            (CallsRefused(sides, tuple(sorted(one.rank for one in named)), said),), culprits,
            death_lines(deaths, scene.framework),
        )
    ]  # fmt: skip


def _deed(one: _Raised, op: str) -> Deed:
    return Deed(Act.RAISED, said=one.said) if one.said else Deed(Act.IS_IN_CALL, op=OpLabel(op))


def _inside(scene: Scene, dead: set[int]) -> list[_Raised]:
    calls = np.isin(scene.kind, (Kind.COLLECTIVE, Kind.STEP)) & scene.live
    ranks = [rank_of(int(member)) for member in scene.members[calls & (scene.lane == 0)]]
    return [_Raised(rank, "", user_line(scene, rank)) for rank in ranks if rank not in dead]


def _last_words(scene: Scene, deaths: list[Gone]) -> list[_Raised]:
    told: dict[int, tuple[str, Frame | None]] = {
        gone.rank: (gone.exception, gone.where) for gone in deaths if gone.how is Departure.RAISED
    }
    told |= {rank: (raised.exception, raised.where) for rank, raised in last_words(scene).items()}
    return [_Raised(rank, said, scene.whose.where(where)) for rank, (said, where) in sorted(told.items())]
