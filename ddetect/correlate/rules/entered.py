"""Everyone is in and nobody comes out: below Python. No rank is named, unless a device tells one from the others."""

from __future__ import annotations

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.collectives import calls_at
from ddetect.correlate.finding import Finding, Precedence, Weight
from ddetect.correlate.phrases import culprit, label, wait_lines
from ddetect.correlate.rules.mismatch import find_sides
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import user_line
from ddetect.correlate.wait import Wait, in_step
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Proof, Status
from ddetect.model.claims import DeviceBehind, NobodyLeaves, NobodyMeets
from ddetect.model.deeds import Act, Deed


def never_left(scene: Scene, waits: Waits) -> list[Finding]:
    """Operations in which nobody is missing and nothing is unknown."""
    found = []
    for wait in waits.all:
        if wait.targets or wait.blind:
            continue
        if wait.joins:
            found.append(_nobody_joins(scene, wait))
        elif wait.p2p and wait.entered:
            found.append(_all_in(scene, wait))
        elif wait.standing is not None and wait.seq is not None:
            if len(wait.entered) < len(wait.standing.members) or not wait.standing.sure_members:
                continue  # somebody's recorder was not read: absence is not claimed, and neither is presence
            if wait.standing.announced and _in_step(scene, wait):
                continue  # who has a number may still wait for its data (steps.py)
            if len(find_sides(calls_at(scene.snapshot, wait.standing, wait.seq), scene.framework)) > 1:
                continue
            found += _behind_on_device(scene, wait) or [_all_in(scene, wait)]
    return found


def _in_step(scene: Scene, wait: Wait) -> bool:
    inside = in_step(scene)
    return any(inside[scene.position(member)] for member in wait.waiters)


def _all_in(scene: Scene, wait: Wait) -> Finding:
    some_left = False
    if wait.standing is not None and wait.seq is not None:
        some_left = bool((wait.standing.completed >= wait.seq).any())
    partners = wait.entered if wait.standing is None else ()
    claim = NobodyLeaves(wait.waiters, label(wait), partners, some_left)
    return Finding(
        Precedence.NEVER_LEFT, Status.HANG, Cause.ALL_ENTERED_NONE_LEFT, Proof.TIME, confidence.ALL_ENTERED, (claim,),
        (), tuple(wait_lines(wait, scene.names)), Weight(likely=True, size=len(wait.waiters)),
    )  # fmt: skip


def _nobody_joins(scene: Scene, wait: Wait) -> Finding:
    # The others have joined: whoever still tries is the one to look at.
    named = () if len(wait.waiters) >= scene.world else wait.waiters
    culprits = tuple(
        culprit(scene, rank, Deed(Act.CANNOT_JOIN), where=user_line(scene, rank)) for rank in named
    )
    return Finding(
        Precedence.NEVER_LEFT, Status.HANG, Cause.RENDEZVOUS, Proof.TIME, confidence.ALL_ENTERED, (NobodyMeets(named),),
        culprits, tuple(wait_lines(wait, scene.names)), Weight(likely=True, size=len(wait.waiters)),
    )  # fmt: skip


def _behind_on_device(scene: Scene, wait: Wait) -> list[Finding]:
    """All enqueued the same; the recorder shows who has not begun, or not ended, on the device."""
    standing, seq = wait.standing, wait.seq
    if standing is None or seq is None or not standing.on_device:
        return []
    unfinished = standing.completed < seq
    behind, act = np.zeros(len(unfinished), bool), Act.HAS_NOT_FINISHED
    if unfinished.any() and not unfinished.all():
        behind = unfinished
    elif (standing.started >= seq).any() and (standing.started < seq).any():
        behind, act = standing.started < seq, Act.HAS_NOT_BEGUN
    ranks = tuple(int(rank) for rank in standing.members[behind])
    if not ranks or 2 * len(ranks) > len(standing.members):
        return []
    op = label(wait)
    culprits = tuple(culprit(scene, rank, Deed(act, op=op), where=user_line(scene, rank)) for rank in ranks)
    claim = DeviceBehind(ranks, act is Act.HAS_NOT_FINISHED, op)
    return [
        Finding(
            Precedence.NEVER_LEFT, Status.HANG, Cause.DEVICE_STUCK, Proof.TIME, confidence.DEVICE, (claim,), culprits,
            tuple(wait_lines(wait, scene.names)),
        )
    ]  # fmt: skip
