"""A rank process that the kernel keeps stopped: nothing that waits for it can go on."""

from __future__ import annotations

from dataclasses import replace

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.reasons import explain
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Proof, Status
from ddetect.model.claims import Each
from ddetect.model.deeds import Deed


def process_stopped(scene: Scene, waits: Waits) -> list[Finding]:
    """Name the stopped rank processes."""
    ranks = [int(rank) for rank in scene.members[scene.frozen]]
    if not ranks:
        return []
    reasons = [explain(scene, rank) for rank in ranks]
    # All of them at once is somebody's decision (a batch system, ctrl-Z): only time tells whether it was forgotten.
    everybody = len(ranks) > 1 and not (scene.live & ~scene.frozen).any()
    proof = Proof.TIME if everybody else Proof.STRUCTURAL
    return [
        Finding(
            Precedence.PROCESS_STOPPED, Status.HANG, Cause.PROCESS_STOPPED, proof, confidence.STOPPED,
            (Each(tuple(zip(ranks, _alike([reason.deed for reason in reasons]), strict=True))),),
            tuple(reason.culprit(scene, rank) for rank, reason in zip(ranks, reasons, strict=True)),
            tuple(line for reason in reasons[:4] for line in reason.evidence), held=waits.waiting_for(ranks),
        )
    ]  # fmt: skip


def _alike(deeds: list[Deed]) -> list[Deed]:
    """Ranks that were stopped at different lines are stopped all the same: one part of a sentence, without a line."""
    if len({deed.where for deed in deeds}) == 1:
        return deeds
    return [replace(deed, where=None) for deed in deeds]
