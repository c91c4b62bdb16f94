"""Members inside a compiled step that does not end, where nothing tells what it waits for: its data, or the others.

Both look alike from Python, and a look below it may cost a multi-worker job its life. So nobody is named; it is said
who is left open, and between what. Never here: members that others certainly wait for (missing.py).
"""

from __future__ import annotations

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import wait_lines
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import sight_lines, user_line
from ddetect.correlate.wait import in_step
from ddetect.correlate.waits import Waits
from ddetect.model import Cause, Open, Proof, Status
from ddetect.model.claims import StepUntold

BETWEEN = (Cause.DATA_LOADING, Cause.ALL_ENTERED_NONE_LEFT)
_SHOWN = 3


def step_untold(scene: Scene, waits: Waits) -> list[Finding]:
    """Everybody who stands is in a step, or waits for one of those who are."""
    still = ~(scene.activity_age_s < scene.snapshot.settings.floor_s) & scene.live & ~scene.aside
    inside = in_step(scene) & still & scene.steady
    if not inside.any() or any(wait.targets or wait.blind for wait in waits.all):
        return []
    if (~inside & still & ~waits.blocked).any():
        return []  # somebody does something else: he is what the others wait for, or a case of his own
    members = tuple(int(member) for member in scene.members[np.flatnonzero(inside)])
    lines = {user_line(scene, member) for member in members}
    replicas = scene.snapshot.lanes == 1 and scene.world == 1
    claim = StepUntold(members, lines.pop() if len(lines) == 1 else None, replicas)
    evidence = [line for wait in waits.all[:_SHOWN] for line in wait_lines(wait, scene.names)]
    evidence += [
        line for member in members[:_SHOWN] for line in sight_lines(scene.rank_process(member), scene.names)
    ]
    return [
        Finding(
            Precedence.NAMED_ONLY, Status.UNDECIDED, None, Proof.TIME, confidence.UNTOLD, (claim,), (), tuple(evidence),
            left_open=Open(members, BETWEEN),
        )
    ]  # fmt: skip
