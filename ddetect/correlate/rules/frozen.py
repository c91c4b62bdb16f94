"""A rank process that the kernel keeps stopped: nothing that waits for it can go on."""

from __future__ import annotations

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import each_of, waiting_words
from ddetect.correlate.reasons import explain
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Proof, Status


def process_stopped(scene: Scene, waits: Waits) -> list[Finding]:
    """Name the stopped rank processes."""
    ranks = [int(rank) for rank in scene.ranks[scene.stopped]]
    if not ranks:
        return []
    reasons = [explain(scene, rank) for rank in ranks]
    says = each_of(ranks, reasons[0].doing)
    waiting = waiting_words(waits.waiting_for(ranks), it="it" if len(ranks) == 1 else "them")
    # All of them at once is somebody's decision (a batch system, ctrl-Z): only time tells whether it was forgotten.
    everybody = len(ranks) > 1 and not (scene.live & ~scene.stopped).any()
    proof = Proof.TIME if everybody else Proof.STRUCTURAL
    return [
        Finding(
            Precedence.PROCESS_STOPPED, Status.HANG, Cause.PROCESS_STOPPED, proof, confidence.STOPPED,
            says + (f"; {waiting}" if waiting else ""),
            tuple(reason.culprit(scene, rank) for rank, reason in zip(ranks, reasons, strict=True)),
            tuple(line for reason in reasons[:4] for line in reason.evidence),
        )
    ]  # fmt: skip
