"""Ranks that wait for each other in a circle: opposite group order, or point-to-point operations."""

from __future__ import annotations

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit, label, stuck_in, wait_lines
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import sight_lines, user_line
from ddetect.correlate.waits import Waits
from ddetect.model import UNKNOWN, Cause, Proof, Status
from ddetect.model.claims import Circle
from ddetect.model.deeds import Act, Deed, OpLabel, Through


def deadlock(scene: Scene, waits: Waits) -> list[Finding]:
    """One finding per circle, its members as culprits."""
    found = []
    for ranks in waits.cycles:
        members = set(ranks)
        inside = [wait for wait in waits.all if members & set(wait.waiters) and members & set(wait.missing)]
        # With sends or receives and one group in the circle, no order of groups is at fault: a partner is missing.
        groups = {wait.group for wait in inside if not wait.p2p}
        p2p = len(groups) < 2 and any(wait.p2p for wait in inside)
        cause = Cause.P2P_DEADLOCK if p2p else Cause.GROUP_ORDER_DEADLOCK
        culprits = []
        for rank in ranks:
            op = next((label(wait) for wait in inside if rank in wait.waiters), OpLabel(""))
            culprits.append(culprit(scene, rank, Deed(Act.WAITS_IN, op=op), where=user_line(scene, rank)))
        through = Through.GROUPS
        if p2p:
            through = Through.MIXED if groups else Through.SEND_AND_RECEIVE
        evidence = [line for wait in inside[:6] for line in wait_lines(wait, scene.names)]
        evidence += [
            line for rank in ranks[:4] for line in sight_lines(scene.rank_process(rank), scene.names)
        ]
        # From stacks alone it takes time: two ranks that exchange much with isend and recv look like this for a while.
        told = any(scene.phase[scene.position(rank)] != UNKNOWN for rank in ranks)
        told |= any(wait.standing is not None for wait in inside)
        told &= not any(wait.p2p and wait.doubtful for wait in inside)  # what was posted before is not known
        doubt = confidence.DOUBTFUL if any(wait.doubtful for wait in inside) else 1.0
        found.append(
            Finding(
                Precedence.CYCLE, Status.HANG, cause, Proof.STRUCTURAL if told else Proof.TIME,
                confidence.times(confidence.CYCLE, doubt), (Circle(ranks, through, stuck_in(inside)),),
                tuple(culprits), tuple(evidence),
            )
        )  # fmt: skip
    return found
