"""Nobody waits for anybody, and yet nothing moves: one process, or ranks that are stuck each on its own."""

from __future__ import annotations

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.kinds import Kind
from ddetect.correlate.motion import moved
from ddetect.correlate.phrases import each_of
from ddetect.correlate.reasons import Reason, explain
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import IN_COMMUNICATION
from ddetect.correlate.waits import Waits
from ddetect.model import UNKNOWN, Cause, Phase, Proof, Status

MOST_EXPLAINED = 512


def stuck_alone(scene: Scene, waits: Waits) -> list[Finding]:
    """Name the ranks that stand still by their own sighting; only where no rank waits for another."""
    if waits.all or waits.murky.any():
        return []
    still = (
        ~(scene.activity_age_s < scene.snapshot.settings.floor_s) & scene.live & (scene.phase != Phase.PAUSED)
    )
    by_cause: dict[Cause, list[tuple[int, Reason]]] = {}
    for rank in scene.ranks[np.flatnonzero(still)[:MOST_EXPLAINED]]:
        if _is_done(scene, int(rank)) or _may_wait(scene, int(rank)):
            continue
        reason = explain(scene, int(rank))
        if reason.cause is not None:
            by_cause.setdefault(reason.cause, []).append((int(rank), reason))
    return [_finding(scene, cause, named) for cause, named in by_cause.items()]


def _is_done(scene: Scene, rank: int) -> bool:
    """It has left its process group and does something else: export, upload, a last evaluation. Nobody waits."""
    in_teardown = scene.rank_process(rank).doing.kind is Kind.TEARDOWN
    return scene.phase_of(rank) is Phase.LEAVING and not in_teardown


def _may_wait(scene: Scene, rank: int) -> bool:
    """No recorder tells whether a collective holds it: DDP's in backward, Work.wait() at a line of the user's. It may
    well be a victim.
    """
    at = scene.position(rank)
    if scene.world == 1 or scene.progress_read[at]:
        return False
    in_backward = scene.rank_process(rank).doing.kind is Kind.BACKWARD
    in_call = scene.phase[at] in (UNKNOWN, *IN_COMMUNICATION)
    return bool(in_backward or (scene.asks_lock[at] and in_call))


def _finding(scene: Scene, cause: Cause, named: list[tuple[int, Reason]]) -> Finding:
    ranks = [rank for rank, _ in named]
    motion = moved(scene.snapshot, ranks)
    # Everybody ends one day: who leaves while nobody waits for it contradicts nothing; only time tells if it hangs.
    leaves = cause is Cause.LEFT_EARLY
    structural = not leaves and all(reason.proof is Proof.STRUCTURAL for _, reason in named)
    factors = [] if all(reason.clear for _, reason in named) else [confidence.WEAK_SIGHTING]
    factors += [confidence.MOVING] if motion and not structural else []
    factors += [confidence.NOBODY_WAITS] if scene.world > 1 else []
    evidence = [line for _, reason in named[:4] for line in reason.evidence]
    if motion:
        evidence.append(f"something still moves: {motion}")
    by_words: dict[str, list[int]] = {}
    for rank, reason in named:
        by_words.setdefault(reason.doing, []).append(rank)
    says = "; ".join(each_of(group, doing) for doing, group in list(by_words.items())[:2])
    return Finding(
        Precedence.ALONE, Status.HANG, cause, Proof.STRUCTURAL if structural else Proof.TIME,
        confidence.times(confidence.ALONE, *factors), says,
        tuple(reason.culprit(scene, rank) for rank, reason in named), tuple(evidence),
        1e9 * structural + 1e6 * (not motion) + len(ranks),
    )  # fmt: skip
