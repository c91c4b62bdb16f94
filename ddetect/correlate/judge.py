"""Name the ranks the others wait for, or say why we cannot. A Snapshot enters, a Verdict leaves.

Arrange, build the wait-for graph, let every rule speak, rank what they found. The same snapshot always gives the same
verdict. Never here: I/O, clocks, patience (the coordinator decides when a suspicion becomes an alarm).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ddetect.correlate import confidence
from ddetect.correlate.advice import advise
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import ranks_words, wait_lines, waiting_words
from ddetect.correlate.ranking import MOST_EVIDENCE, join, sentence, strongest
from ddetect.correlate.rules.alone import stuck_alone
from ddetect.correlate.rules.apart import calls_apart
from ddetect.correlate.rules.consequence import deaths_of
from ddetect.correlate.rules.cycle import deadlock
from ddetect.correlate.rules.death_words import MOST_LINES, death_lines, deaths_words
from ddetect.correlate.rules.entered import never_left
from ddetect.correlate.rules.fault import first_fault, on_purpose, only_consequences
from ddetect.correlate.rules.frozen import process_stopped
from ddetect.correlate.rules.mismatch import mismatch
from ddetect.correlate.rules.missing import never_entered
from ddetect.correlate.rules.unseen import connections_closed, fell_silent, oldest_consequence
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import every_node_is_heard, unheard
from ddetect.correlate.waits import Waits, find_waits, idle_in_backward, reducer_seen
from ddetect.frameworks import FRAMEWORKS, Registry
from ddetect.frameworks.kinds import Kind
from ddetect.model import Departure, Phase, Proof, Settings, Snapshot, Status, Unread, Verdict, Waiting
from ddetect.rankset import format_ranks

Rule = Callable[[Scene, Waits], list[Finding]]

MOST_ADVICE = 6

RULES: tuple[Rule, ...] = (
    first_fault,
    process_stopped,
    deadlock,
    mismatch,
    never_entered,
    never_left,
    calls_apart,
    stuck_alone,
)
NO_PROCESS = "no process of it is seen: it runs on another node, which nobody watches, or it was not started"


def judge(
    snapshot: Snapshot,
    *,
    now: float = 0.0,
    settings: Settings | None = None,
    frameworks: Registry = FRAMEWORKS,
) -> Verdict:
    """Judge a snapshot. `now` decides nothing: a snapshot carries ages, so a replay gives the same verdict."""
    if settings is not None:
        snapshot = replace(snapshot, settings=settings)
    scene = Scene(snapshot, frameworks)
    waits = find_waits(scene)
    findings = [finding for rule in RULES for finding in rule(scene, waits)]
    if only_consequences(scene):
        findings = _after_consequences(scene, findings)
    moving = _well(scene, waits)
    if moving is not None and not any(f.precedence <= Precedence.PROCESS_STOPPED for f in findings):
        return moving
    return _verdict(scene, waits, findings) if findings else _undecided(scene, waits)


def wants_native(snapshot: Snapshot, frameworks: Registry = FRAMEWORKS) -> tuple[int, ...]:
    """The processes whose native stack would decide something: a culprit asleep on a futex at a line of the user's,
    a busy one that may be in `.item()`, and one of those that seem to wait in backward.
    """
    scene = Scene(snapshot, frameworks)
    one = _backward_to_prove(scene)
    if not (scene.asks_lock | scene.asks_device | scene.native_fades).any():
        return one
    waits = find_waits(scene)
    alone = not waits.all and not waits.murky.any()
    suspects = scene.live if alone else (waits.waited | waits.presumed) & ~waits.blocked
    # A rank that was not accused because this line may be Work.wait() is worth the question too.
    unclear = scene.asks_lock & ~scene.progress_read & ~waits.blocked
    unclear |= scene.may_wait_for_device & ~waits.blocked
    ranks = scene.ranks[scene.asks_lock & suspects | unclear | scene.native_fades & scene.live]
    return tuple(sorted({*one, *(pid for pid in (scene.pid(int(rank)) for rank in ranks[:16]) if pid)}))


def asked_to_end(snapshot: Snapshot, frameworks: Registry = FRAMEWORKS) -> bool:
    """Whether somebody wanted the job to end: what died of that is no alarm."""
    return bool(snapshot.gone) and bool(on_purpose(Scene(snapshot, frameworks)))


def deaths_in(snapshot: Snapshot, frameworks: Registry = FRAMEWORKS) -> tuple[str, ...]:
    """Evidence: the ranks that died, a line each."""
    if not snapshot.gone:
        return ()
    scene = Scene(snapshot, frameworks)
    return death_lines(deaths_of(scene), scene.framework)


def _backward_to_prove(scene: Scene) -> tuple[int, ...]:
    """One rank that seems to wait in backward stands for all that do: its native stack shows DDP's reducer, or not."""
    ranks = scene.ranks[idle_in_backward(scene)]
    if not len(ranks) or reducer_seen(scene, ranks):
        return ()
    return tuple(pid for pid in (scene.pid(int(ranks[0])),) if pid)


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
    if ended and all(gone.how is Departure.EXITED for gone in scene.gone_ranks.values()):
        return Verdict(Status.HEALTHY, None, Proof.TIME, 0.9, "every rank has ended without an error")
    live = scene.live
    if live.any() and not waits.all and (scene.phase[live] == Phase.LEAVING).all() and not _tears_down(scene):
        return Verdict(
            Status.HEALTHY, None, Proof.TIME, 0.7, "training is over: every rank has left its group"
        )
    recent = scene.activity_age_s[live] < scene.snapshot.settings.floor_s
    if not live.any() or not recent.all() or scene.stopped.any():
        return None
    if scene.snapshot.stalled_for_s >= scene.snapshot.settings.floor_s:
        text = f"no step for {scene.snapshot.stalled_for_s:.1f} s, but every rank still moves"
        return Verdict(Status.UNDECIDED, None, Proof.TIME, 0.5, text, unread=_unread(scene))
    return Verdict(Status.HEALTHY, None, Proof.TIME, 0.9, "every rank moves", unread=_unread(scene))


def _tears_down(scene: Scene) -> bool:
    return bool((scene.kind[scene.live] == Kind.TEARDOWN).any())


def _verdict(scene: Scene, waits: Waits, findings: list[Finding]) -> Verdict:
    equals, rest = strongest(findings)
    first = join(equals)
    unread = _unread(scene)
    named = {culprit.rank for culprit in first.culprits}
    evidence, says = list(first.evidence), sentence(first)
    if first.status is Status.STOPPED and first.precedence is not Precedence.FIRST_FAULT:
        # A living rank is named: say who died, and that this is why the job has stopped.
        deaths = deaths_of(scene)
        evidence = [*evidence[: MOST_EVIDENCE - MOST_LINES], *death_lines(deaths, scene.framework)]
        says += f"; {deaths_words(deaths, scene.framework)}"
    evidence += [f"also: {sentence(finding)}" for finding in rest[:3] if finding.says != first.says]
    advice = [line for finding in equals for line in advise(finding.cause, finding.culprits)]
    return Verdict(
        first.status,
        first.cause,
        first.proof,
        confidence.times(first.confidence, confidence.UNREAD_RANKS if _others_unread(unread, named) else 1.0),
        says + _unread_words(scene, unread),
        tuple(sorted(first.culprits, key=lambda culprit: (culprit.rank, culprit.pid or 0))),
        _waiting(scene, waits, named if first.status is not Status.STOPPED else set()),
        unread,
        tuple(dict.fromkeys(evidence))[:MOST_EVIDENCE],
        tuple(dict.fromkeys(advice))[:MOST_ADVICE],
    )


def _undecided(scene: Scene, waits: Waits) -> Verdict:
    """Say what is missing. Never somebody else."""
    unread = _unread(scene)
    blind = sorted({rank for wait in waits.all for rank in wait.blind})
    silent = sorted({int(rank) for rank in scene.ranks[waits.murky]})
    waiting = waiting_words(waits.all, it="")
    may_wait = scene.live & (
        (scene.kind == Kind.DEVICE_SYNC) & ~scene.progress_read | scene.may_wait_for_device
    )
    if blind:
        text = f"{waiting}; {_blind_words(scene, blind)}, so who is missing is not known"
    elif waits.all:
        unknown = "" if scene.progress_read[scene.live].all() else ": not every recorder could be read"
        unsure = f"; {ranks_words(silent)} may be in it, or in another operation" if silent else ""
        text = f"{waiting}; who is missing is not known{unknown}{unsure}"
    elif silent:
        inside = scene.framework.words.inside
        text = f"{ranks_words(silent)} are inside {inside}, and no recorder tells in which operation"
    elif may_wait.any():
        ranks = [int(rank) for rank in scene.ranks[may_wait]]
        what = "its device" if len(ranks) == 1 else "their devices"
        text = f"{ranks_words(ranks)} may wait for {what}, and no recorder tells in which operation"
    elif not scene.live.any():
        text = "no rank process is known"
    elif not scene.snapshot.samples:
        text = "no look at the processes was taken yet"
    else:
        text = "nothing in the stacks or the collectives explains a stall"
    evidence = [line for wait in waits.all[:6] for line in wait_lines(wait)]
    return Verdict(
        Status.UNDECIDED, None, Proof.TIME, 0.3, text + _unread_words(scene, unread), (), _waiting(scene, waits, set()),
        unread, tuple(evidence), advise(None, ()),
    )  # fmt: skip


def _blind_words(scene: Scene, blind: list[int]) -> str:
    """Those that were seen, and whose line does not tell whether they wait, are not called unread."""
    seen = [rank for rank in blind if scene.rank_process(rank).doing.kind is not Kind.UNREAD]
    unread = [rank for rank in blind if rank not in seen]
    parts = [f"{ranks_words(unread)} could not be read"] if unread else []
    parts += [f"{ranks_words(seen)} may wait as well"] if seen else []
    return " and ".join(parts)


def _waiting(scene: Scene, waits: Waits, named: set[int]) -> tuple[Waiting, ...]:
    shown = []
    for wait in sorted(waits.all, key=lambda wait: (-len(wait.waiters), wait.label, wait.waiters)):
        waiters = tuple(rank for rank in wait.waiters if rank not in named or wait.targets or not named)
        if waiters:
            shown.append(replace(wait.as_waiting(), ranks=waiters))
    return tuple(shown)


def _unread(scene: Scene) -> tuple[Unread, ...]:
    """What the agents said they could not read, and living ranks that no look shows. Who is gone needs no reading."""
    told = [
        replace(item, ranks=tuple(rank for rank in item.ranks if rank not in scene.gone_ranks))
        for item in scene.snapshot.unread
    ]
    said = [item for item in told if item.ranks]
    if scene.snapshot.samples:
        unseen = scene.live & (scene.kind == 0) & ~scene.said_unread
        by_reason: dict[str, list[int]] = {}
        for rank in scene.ranks[unseen]:
            reason = scene.rank_process(int(rank)).sighting.unread or "its stack was empty"
            by_reason.setdefault(reason, []).append(int(rank))
        said += [Unread(tuple(ranks), reason) for reason, ranks in by_reason.items()]
    absent = unheard(scene)
    if absent.any() and not every_node_is_heard(scene):
        said.append(Unread(tuple(int(rank) for rank in scene.ranks[absent]), NO_PROCESS))
    return tuple(sorted(said, key=lambda item: (item.ranks, item.reason)))


def _others_unread(unread: tuple[Unread, ...], named: set[int]) -> bool:
    return any(set(item.ranks) - named for item in unread)


def _unread_words(scene: Scene, unread: tuple[Unread, ...]) -> str:
    ranks = {rank for item in unread for rank in item.ranks}
    return f"; {len(ranks)} of {scene.world} ranks unread ({format_ranks(ranks)})" if ranks else ""
