"""Nobody waits for anybody, and yet nothing moves: one process, or ranks that are stuck each on its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence, Weight
from ddetect.correlate.motion import moved
from ddetect.correlate.reasons import MOST_CHILDREN, MOST_EXPLAINED, explain
from ddetect.correlate.rules.consequence import waited_in_vain
from ddetect.correlate.scene import Bools, Scene, SeenProcess
from ddetect.correlate.sights import Reason, sight_lines
from ddetect.correlate.wait import IN_COMMUNICATION
from ddetect.correlate.waits import Waits
from ddetect.frameworks.kinds import Kind
from ddetect.model import UNKNOWN, Cause, Phase, Proof, Role, Status
from ddetect.model.claims import Each

_MEETS = frozenset({Kind.COLLECTIVE, Kind.P2P})


def stuck_alone(scene: Scene, waits: Waits) -> list[Finding]:
    """Name the ranks that stand still by their own sighting; only where no rank waits for another."""
    if waits.all or waits.murky.any():
        return []
    still = (
        ~(scene.activity_age_s < scene.snapshot.settings.floor_s) & scene.live & (scene.phase != Phase.PAUSED)
    )
    still &= ~_may_wait(scene)
    victims = np.isin(scene.members, list(waited_in_vain(scene)))
    still = (
        still & ~victims if (still & ~victims).any() else still
    )  # beside somebody else they are no culprits
    by_cause: dict[Cause, list[tuple[int, Reason]]] = {}
    for rank in scene.members[np.flatnonzero(still)[:MOST_EXPLAINED]]:
        if _is_done(scene, int(rank)):
            continue
        reason = explain(scene, int(rank))
        if reason.cause is not None:
            by_cause.setdefault(reason.cause, []).append((int(rank), reason))
    left = {cause: _without_victims(scene, named) for cause, named in by_cause.items()}
    return [
        _finding(scene, cause, named, alone=len(named) == len(by_cause[cause]))
        for cause, named in left.items()
        if named
    ]


def _without_victims(scene: Scene, named: list[tuple[int, Reason]]) -> list[tuple[int, Reason]]:
    """Leave out ranks that wait for a child which waits for other children: those of the ranks that are left.

    Processes that write checkpoints meet in a group of their own, which no recorder of a rank tells of.
    """
    children = {rank: scene.others_of(rank, Role.CHILD) for rank, _ in named}
    kinds = {rank: {child.doing.kind for child in mine} for rank, mine in children.items()}
    meeting = [rank for rank, mine in kinds.items() if mine & _MEETS]
    if not meeting or len(meeting) == np.count_nonzero(
        scene.live
    ):  # all of them: there is nobody to wait for
        return named
    # A child that could not be read may be among those that meet.
    return [
        (rank, _with_children(scene, reason, children[rank]))
        for rank, reason in named
        if kinds[rank] - {Kind.UNREAD} and rank not in meeting
    ]


def _with_children(scene: Scene, reason: Reason, children: list[SeenProcess]) -> Reason:
    told = tuple(line for child in children[:MOST_CHILDREN] for line in sight_lines(child, scene.names))
    return replace(reason, evidence=(*reason.evidence, *told))


def _is_done(scene: Scene, rank: int) -> bool:
    """It has left its process group and does something else: export, upload, a last evaluation. Nobody waits."""
    in_teardown = scene.rank_process(rank).doing.kind is Kind.TEARDOWN
    return scene.phase_of(rank) is Phase.LEAVING and not in_teardown


def _may_wait(scene: Scene) -> Bools:
    """No recorder tells whether a collective holds them: DDP's in backward, one on the device, Work.wait() or `.item()`
    at a line of the user's. They may well be victims.
    """
    if scene.world == 1:
        return np.zeros(len(scene.members), bool)
    inside = np.isin(scene.kind, (Kind.BACKWARD, Kind.DEVICE_SYNC))
    handle = scene.asks_lock & np.isin(scene.phase, (UNKNOWN, *IN_COMMUNICATION))
    return np.asarray((inside | handle | scene.may_wait_for_device) & ~scene.progress_read)


def _finding(scene: Scene, cause: Cause, named: list[tuple[int, Reason]], *, alone: bool) -> Finding:
    ranks = [rank for rank, _ in named]
    motion = moved(scene.snapshot, ranks, scene.framework)
    # Everybody ends one day: who leaves while nobody waits for it contradicts nothing; only time tells if it hangs.
    leaves = cause is Cause.LEFT_EARLY
    structural = not leaves and all(reason.proof is Proof.STRUCTURAL for _, reason in named)
    factors = [] if all(reason.clear for _, reason in named) else [confidence.WEAK_SIGHTING]
    factors += [confidence.MOVING] if motion and not structural else []
    factors += [confidence.NOBODY_WAITS] if scene.world > 1 and alone else []
    evidence = [line for _, reason in named[:4] for line in reason.evidence]
    if motion:
        evidence.append(f"something still moves: {motion}")
    # A few that certainly mind their own business say more than many of which that is only likely.
    certain = all(scene.plainly_elsewhere[scene.position(rank)] for rank in ranks)
    claim = Each(tuple((rank, reason.deed) for rank, reason in named))
    return Finding(
        Precedence.ALONE, Status.HANG, cause, Proof.STRUCTURAL if structural else Proof.TIME,
        confidence.times(confidence.ALONE, *factors), (claim,),
        tuple(reason.culprit(scene, rank) for rank, reason in named), tuple(evidence),
        Weight(moves=bool(motion), likely=not certain, size=len(ranks)),
    )  # fmt: skip
