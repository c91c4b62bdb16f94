"""Ranks that others wait for and that wait for no rank: the culprits. Their own sighting gives the cause.

Also here: a rank that never joined, and one that left while others wait.
"""

from __future__ import annotations

from ddetect.correlate import confidence
from ddetect.correlate.finding import AGE_UNKNOWN, Finding, Precedence, Weight
from ddetect.correlate.motion import Motion, moved
from ddetect.correlate.phrases import wait_lines
from ddetect.correlate.reasons import MOST_EXPLAINED, explain
from ddetect.correlate.rules.consequence import waited_in_vain
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import Reason, sight_lines, user_line
from ddetect.correlate.wait import Wait
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Proof, Status
from ddetect.model.claims import Each
from ddetect.model.deeds import Act, Deed


def never_entered(scene: Scene, waits: Waits) -> list[Finding]:
    """One finding per cause among the ranks that are waited for."""
    by_cause: dict[Cause | None, list[tuple[int, Reason]]] = {}
    roots = waits.roots(scene)
    # Who waited in vain, and hangs on its way out, is missed too: beside a culprit it is none.
    victims = waited_in_vain(scene)
    roots = tuple(rank for rank in roots if rank not in victims) or roots
    for rank in roots[:MOST_EXPLAINED]:
        gone = scene.gone_ranks.get(rank)
        if gone is not None and gone.is_death:
            continue  # that is a first fault
        reason = _reason(scene, rank, waits.waiting_for([rank]))
        by_cause.setdefault(reason.cause, []).append((rank, reason))
    return [_finding(scene, waits, cause, named) for cause, named in by_cause.items()]


def _reason(scene: Scene, rank: int, held: tuple[Wait, ...]) -> Reason:
    if rank in scene.gone_ranks:
        return Reason(Cause.LEFT_EARLY, Deed(Act.EXITED), Proof.STRUCTURAL)
    joins = any(wait.joins for wait in held)
    position = scene.position(rank)
    if joins and (position < 0 or not scene.live[position]):
        return Reason(Cause.RENDEZVOUS, Deed(Act.NEVER_STARTED))
    reason = explain(scene, rank)
    if joins and reason.cause is not Cause.PROCESS_STOPPED:
        where = user_line(scene, rank)
        deed = Deed(Act.HAS_NOT_JOINED, where)
        seen = sight_lines(scene.rank_process(rank), scene.names)
        return Reason(Cause.RENDEZVOUS, deed, Proof.TIME, where is not None, where, evidence=seen)
    return reason


def _finding(scene: Scene, waits: Waits, cause: Cause | None, named: list[tuple[int, Reason]]) -> Finding:
    ranks = [rank for rank, _ in named]
    held = sorted(waits.waiting_for(ranks), key=lambda wait: (-len(wait.waiters), wait.label))
    structural = all(reason.proof is Proof.STRUCTURAL for _, reason in named)
    factors = [] if all(reason.clear for _, reason in named) else [confidence.WEAK_SIGHTING]
    proven = [waits.waited[scene.position(rank)] for rank in ranks if scene.position(rank) >= 0]
    # A stopped or dead process needs no recorder; for the others the stack alone speaks.
    if not all(proven) and any(reason.proof is not Proof.STRUCTURAL for _, reason in named):
        factors.append(confidence.PRESUMED)
    if cause is None:
        factors.append(confidence.NOT_TOLD)
    if any(wait.doubtful for wait in held):
        factors.append(confidence.DOUBTFUL)
    motion = Motion() if structural else moved(scene.snapshot, ranks, scene.framework)
    evidence = [line for _, reason in named[:4] for line in reason.evidence]
    evidence += [line for wait in held[:4] for line in wait_lines(wait, scene.names)]
    if motion:
        factors.append(confidence.MOVING)
        evidence.append(f"something still moves: {motion}")
    at = [scene.position(rank) for rank in ranks]
    ages = [
        float(scene.activity_age_s[i])
        for i in at
        if i >= 0 and scene.activity_age_s[i] == scene.activity_age_s[i]
    ]
    base = {Cause.LEFT_EARLY: confidence.LEFT_EARLY, Cause.RENDEZVOUS: confidence.NEVER_JOINED}.get(
        cause or Cause.USER_CODE, confidence.NEVER_ENTERED
    )
    claim = Each(tuple((rank, reason.deed) for rank, reason in named))
    return Finding(
        Precedence.NEVER_ENTERED if cause is not None else Precedence.NAMED_ONLY,
        Status.HANG if cause is not None else Status.UNDECIDED,
        cause, Proof.STRUCTURAL if structural else Proof.TIME, confidence.times(base, *factors),
        (claim,), tuple(reason.culprit(scene, rank) for rank, reason in named), tuple(dict.fromkeys(evidence)),
        weight=Weight(moves=bool(motion)), held=tuple(held), stands_s=max(ages, default=AGE_UNKNOWN),
    )  # fmt: skip
