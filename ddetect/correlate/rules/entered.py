"""Everyone is in and nobody comes out: below Python. No rank is named, unless a device tells one from the others."""

from __future__ import annotations

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.collectives import calls_at
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import ranks_words, wait_lines
from ddetect.correlate.reasons import user_line
from ddetect.correlate.rules.mismatch import find_sides
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import Wait
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Culprit, Proof, Status


def never_left(scene: Scene, waits: Waits) -> list[Finding]:
    """Operations in which nobody is missing and nothing is unknown."""
    found = []
    for wait in waits.all:
        if wait.targets or wait.blind:
            continue
        if wait.joins:
            found.append(_nobody_joins(scene, wait))
        elif wait.p2p and wait.entered:
            found.append(_all_in(wait, f"{ranks_words(wait.waiters)} and {ranks_words(wait.entered)} met"))
        elif wait.standing is not None and wait.seq is not None:
            if len(wait.entered) < len(wait.standing.members) or not wait.standing.sure_members:
                continue  # somebody's recorder was not read: absence is not claimed, and neither is presence
            if len(find_sides(calls_at(scene.snapshot, wait.standing, wait.seq), scene.framework)) > 1:
                continue
            found += _behind_on_device(scene, wait) or [
                _all_in(wait, "every member is in it, with the same call")
            ]
    return found


def _all_in(wait: Wait, why: str) -> Finding:
    says = f"everyone is in and nobody comes out of {wait.label}: {why}, so it is stuck below Python"
    if wait.standing is not None and wait.seq is not None:
        left = wait.standing.members[wait.standing.completed >= wait.seq]
        if len(left):
            says = f"{ranks_words(wait.waiters)} cannot leave {wait.label}, which all entered: it is stuck below Python"
    return Finding(
        Precedence.NEVER_LEFT, Status.HANG, Cause.ALL_ENTERED_NONE_LEFT, Proof.TIME, confidence.ALL_ENTERED, says,
        (), tuple(wait_lines(wait)), weight=len(wait.waiters),
    )  # fmt: skip


def _nobody_joins(scene: Scene, wait: Wait) -> Finding:
    everybody = len(wait.waiters) >= scene.world
    says = f"every rank is in {wait.on} and none comes out: they do not find each other"
    if not everybody:  # the others have joined: whoever still tries is the one to look at
        says = f"{ranks_words(wait.waiters)} cannot join, though every other rank has joined"
    culprits = tuple(
        Culprit(r, host=scene.host(r), pid=scene.pid(r), where=user_line(scene, r), doing="cannot join")
        for r in (() if everybody else wait.waiters)
    )
    return Finding(
        Precedence.NEVER_LEFT, Status.HANG, Cause.RENDEZVOUS, Proof.TIME, confidence.ALL_ENTERED, says,
        culprits, tuple(wait_lines(wait)), weight=len(wait.waiters),
    )  # fmt: skip


def _behind_on_device(scene: Scene, wait: Wait) -> list[Finding]:
    """All enqueued the same; the recorder shows who has not begun, or not ended, on the device."""
    standing, seq = wait.standing, wait.seq
    if standing is None or seq is None or not standing.on_device:
        return []
    unfinished = standing.completed < seq
    behind = np.zeros(len(unfinished), bool)
    word = ""
    if unfinished.any() and not unfinished.all():
        behind, word = unfinished, "has not finished"
    elif (standing.started >= seq).any() and (standing.started < seq).any():
        behind, word = standing.started < seq, "has not begun"
    ranks = [int(rank) for rank in standing.members[behind]]
    if not ranks or 2 * len(ranks) > len(standing.members):
        return []
    culprits = tuple(
        Culprit(
            r, host=scene.host(r), pid=scene.pid(r), where=user_line(scene, r), doing=f"{word} {wait.label}"
        )
        for r in ranks
    )
    who = ranks_words(ranks) if len(ranks) == 1 else f"each of {ranks_words(ranks)}"
    says = f"the device of {who} {word} {wait.label}, which every rank has enqueued"
    return [
        Finding(
            Precedence.NEVER_LEFT, Status.HANG, Cause.DEVICE_STUCK, Proof.TIME, confidence.DEVICE, says, culprits,
            tuple(wait_lines(wait)), weight=1e6,
        )
    ]  # fmt: skip
