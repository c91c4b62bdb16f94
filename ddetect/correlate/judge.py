"""Name the ranks the others wait for, or say why we cannot. A Snapshot enters, a Verdict leaves.

Arrange, build the wait-for graph, let every rule speak, rank what they found, and at the very end say it. The same
snapshot always gives the same verdict. Never here: I/O, clocks, patience (the coordinator decides when a suspicion
becomes an alarm), what a verdict is made of (conclude.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.conclude import concluded, not_read, said, undecided
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.rules.alone import stuck_alone
from ddetect.correlate.rules.apart import calls_apart
from ddetect.correlate.rules.consequence import deaths_of, last_words
from ddetect.correlate.rules.cycle import deadlock
from ddetect.correlate.rules.death_words import death_lines
from ddetect.correlate.rules.entered import never_left
from ddetect.correlate.rules.fault import first_fault, on_purpose, only_consequences
from ddetect.correlate.rules.frozen import process_stopped
from ddetect.correlate.rules.mismatch import mismatch
from ddetect.correlate.rules.missing import never_entered
from ddetect.correlate.rules.steps import step_untold
from ddetect.correlate.rules.unseen import connections_closed, fell_silent, oldest_consequence
from ddetect.correlate.scene import Bools, Scene
from ddetect.correlate.waits import Waits, find_waits, idle_in_backward, reducer_seen
from ddetect.frameworks import FRAMEWORKS, Registry
from ddetect.frameworks.kinds import Kind
from ddetect.model import (
    Phase,
    Proof,
    Settings,
    Snapshot,
    Status,
    Verdict,
)
from ddetect.model.claims import (
    JobIs,
    State,
)

Rule = Callable[[Scene, Waits], list[Finding]]

RULES: tuple[Rule, ...] = (
    first_fault,
    process_stopped,
    deadlock,
    mismatch,
    never_entered,
    never_left,
    calls_apart,
    stuck_alone,
    step_untold,
)


def judge(
    snapshot: Snapshot,
    *,
    now: float = 0.0,
    settings: Settings | None = None,
    frameworks: Registry = FRAMEWORKS,
) -> Verdict:
    """Judge a snapshot. `now` decides nothing: a snapshot carries ages, so a replay gives the same verdict.

    Values are found first; the last thing done is to say them, in the words of the framework.
    """
    if settings is not None:
        snapshot = replace(snapshot, settings=settings)
    scene = Scene(snapshot, frameworks)
    return said(scene, _judge(scene))


class Examined(NamedTuple):
    """All that is asked of a snapshot, found in one go."""

    verdict: Verdict | None
    native: tuple[int, ...]
    asked: bool
    deaths: tuple[str, ...]


def examine(snapshot: Snapshot, *, decide: bool = True, frameworks: Registry = FRAMEWORKS) -> Examined:
    """The verdict (if it is to be decided), whose native stack would help, and of the dead: were they meant to die."""
    scene = Scene(snapshot, frameworks)
    verdict = said(scene, _judge(scene)) if decide else None
    asked = bool(snapshot.gone) and on_purpose(scene) is not None
    deaths = death_lines(deaths_of(scene), scene.framework) if snapshot.gone else ()
    return Examined(verdict, _wants_native(scene), asked, deaths)


def _judge(scene: Scene) -> Verdict:
    waits = find_waits(scene)
    findings = [finding for rule in RULES for finding in rule(scene, waits)]
    if only_consequences(scene):
        findings = _after_consequences(scene, findings)
    moving = _well(scene, waits)
    if moving is not None and not any(f.precedence <= Precedence.PROCESS_STOPPED for f in findings):
        return moving
    return concluded(scene, waits, findings) if findings else undecided(scene, waits)


def wants_native(snapshot: Snapshot, frameworks: Registry = FRAMEWORKS) -> tuple[int, ...]:
    """The processes whose native stack would decide something: a culprit asleep on a futex at a line of the user's,
    a busy one that may be in `.item()`, and one of those that seem to wait in backward.
    """
    return _wants_native(Scene(snapshot, frameworks))


def _wants_native(scene: Scene) -> tuple[int, ...]:
    one = (*_backward_to_prove(scene), *_steps_to_see_through(scene))
    if not (scene.asks_lock | scene.asks_device | scene.native_fades).any():
        return one
    waits = find_waits(scene)
    alone = not waits.all and not waits.murky.any()
    suspects = scene.live if alone else (waits.waited | waits.presumed) & ~waits.blocked
    # A rank that was not accused because this line may be Work.wait() is worth the question too.
    unclear = scene.asks_lock & ~scene.progress_read & ~waits.blocked
    unclear |= scene.may_wait_for_device & ~waits.blocked
    ranks = scene.members[scene.asks_lock & suspects | unclear | scene.native_fades & scene.live]
    return tuple(sorted({*one, *(pid for pid in (scene.pid(int(rank)) for rank in ranks[:16]) if pid)}))


def _backward_to_prove(scene: Scene) -> tuple[int, ...]:
    """One rank that seems to wait in backward stands for all that do: its native stack shows DDP's reducer, or not."""
    ranks = scene.members[idle_in_backward(scene)]
    if not len(ranks) or reducer_seen(scene, ranks):
        return ()
    return tuple(pid for pid in (scene.pid(int(ranks[0])),) if pid)


def _steps_to_see_through(scene: Scene) -> tuple[int, ...]:
    """A job of one process in a compiled step: its other threads show what that waits for."""
    if scene.count_ranks > 1:
        return ()
    ranks = scene.members[(scene.kind == Kind.STEP) & scene.live & scene.steady & ~scene.frozen]
    return tuple({pid for pid in (scene.pid(int(rank)) for rank in ranks) if pid})


def _after_consequences(scene: Scene, findings: list[Finding]) -> list[Finding]:
    """Everybody who died did so because of somebody who lives, or whom we never saw."""
    if any(finding.precedence is Precedence.FIRST_FAULT for finding in findings):
        return findings
    most = confidence.times(confidence.DEAD, confidence.BESIDE_A_DEATH)
    living = [
        replace(f, status=Status.STOPPED, confidence=min(f.confidence, most))
        for f in findings
        if f.culprits and f.cause is not None
    ]
    silent = fell_silent(scene)
    if silent and connections_closed(scene):
        return [*silent, *living]
    return living or silent or oldest_consequence(scene)


def _well(scene: Scene, waits: Waits) -> Verdict | None:
    """Healthy: everyone ended in peace, or every living rank has just moved."""
    ended = bool(scene.gone_ranks) and not scene.live.any()
    if ended and not any(gone.is_death for gone in scene.gone_ranks.values()):
        return _is(Status.HEALTHY, 0.9, JobIs(State.ENDED))
    live = scene.live
    if live.any() and not waits.all and (scene.phase[live] == Phase.LEAVING).all() and not _tears_down(scene):
        return _is(Status.HEALTHY, 0.7, JobIs(State.OVER))
    if live.any() and not waits.all and _still_ends(scene)[live].all():
        return _is(Status.HEALTHY, 0.7, JobIs(State.OVER))
    recent = scene.activity_age_s[live] < scene.snapshot.settings.floor_s
    if not live.any() or not recent.all() or scene.frozen.any():
        return None
    still_s = scene.snapshot.stalled_for_s
    if still_s >= scene.snapshot.settings.floor_s:
        moves = JobIs(State.MOVES_WITHOUT_STEPS, still_s)
        return replace(_is(Status.UNDECIDED, 0.5, moves), unread=not_read(scene))
    return replace(_is(Status.HEALTHY, 0.9, JobIs(State.MOVES)), unread=not_read(scene))


def _still_ends(scene: Scene) -> Bools:
    """Members on their way out that raised nothing, for no longer than their framework may need for that."""
    raised = np.isin(scene.rank, list(last_words(scene)))
    ends = (scene.phase == Phase.EXITING) & ~raised & ~scene.frozen
    return np.asarray(ends & (scene.phase_age_s < scene.framework.exit_takes_s))


def _is(status: Status, confident: float, claim: JobIs) -> Verdict:
    return Verdict(status, None, Proof.TIME, confident, "", claims=(claim,))


def _tears_down(scene: Scene) -> bool:
    return bool((scene.kind[scene.live] == Kind.TEARDOWN).any())
