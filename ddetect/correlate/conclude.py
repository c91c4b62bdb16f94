"""Make a verdict of what the rules found, or of what is not known. Findings enter, a Verdict leaves.

Values first: `concluded` and `undecided` leave the summary empty; `said` makes English of the claims, and is the last
thing done. Never here: rules, which finding is the strongest (ranking.py), wording (ddetect.report).
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.limits import limit_of
from ddetect.correlate.motion import moved
from ddetect.correlate.phrases import as_waiting, stuck_in, wait_lines
from ddetect.correlate.ranking import MOST_EVIDENCE, join, named_by, strongest
from ddetect.correlate.rules.consequence import deaths_of
from ddetect.correlate.rules.death_words import MOST_LINES, death_deeds, death_lines
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import Wait, every_node_is_heard, unheard
from ddetect.correlate.waits import Waits
from ddetect.frameworks.kinds import Kind
from ddetect.model import (
    Culprit,
    Proof,
    Stage,
    Status,
    Unread,
    Verdict,
    Waiting,
    rank_of,
)
from ddetect.model.claims import (
    Addition,
    AlsoDied,
    CallUnknown,
    Claim,
    Held,
    JobIs,
    MayWaitForDevice,
    MissingUnknown,
    RanksUnread,
    State,
)
from ddetect.report.advice import advise
from ddetect.report.deeds import deed_words
from ddetect.report.sentences import say

MOST_ADVICE = 6
NO_PROCESS = "no process of it is seen: it runs on another node, which nobody watches, or it was not started"


def said(scene: Scene, verdict: Verdict) -> Verdict:
    """The same verdict with its words: the only place where a judgement becomes English."""
    return replace(
        verdict,
        summary=say(verdict.claims, scene.names),
        culprits=tuple(_told(scene, culprit) for culprit in verdict.culprits),
        names=scene.names,
    )


def _told(scene: Scene, culprit: Culprit) -> Culprit:
    if culprit.deed is None:
        return culprit
    return replace(culprit, doing=deed_words(culprit.deed, scene.names))


def concluded(scene: Scene, waits: Waits, findings: list[Finding]) -> Verdict:
    """The strongest finding, or several equals, as a verdict; the rest is its evidence."""
    equals, rest = strongest(findings)
    first = join(equals)
    unread = not_read(scene)
    named = set(named_by([first]))
    evidence, claims = list(first.evidence), _claims(first)
    if first.status is Status.STOPPED and first.precedence is not Precedence.FIRST_FAULT:
        # A living rank is named: say who died, and that this is why the job has stopped.
        deaths = deaths_of(scene)
        evidence = [*evidence[: MOST_EVIDENCE - MOST_LINES], *death_lines(deaths, scene.framework)]
        claims.append(AlsoDied(death_deeds(deaths, scene.framework)))
    evidence += [f"also: {say(_claims(one), scene.names)}" for one in rest[:3] if one.claims != first.claims]
    advice = [
        line
        for finding in equals
        for line in advise(
            finding.cause,
            finding.culprits,
            stuck_in(_held(finding)),
            scene.names,
            untold_step=finding.left_open is not None,
        )
    ]
    verdict = Verdict(
        first.status,
        first.cause,
        first.proof,
        confidence.times(first.confidence, confidence.UNREAD_RANKS if _others_unread(unread, named) else 1.0),
        "",
        tuple(
            sorted(first.culprits, key=lambda culprit: (culprit.rank, culprit.lane or 0, culprit.pid or 0))
        ),
        _waiting(scene, waits, named if first.status is not Status.STOPPED else set()),
        unread,
        tuple(dict.fromkeys(evidence))[:MOST_EVIDENCE],
        tuple(dict.fromkeys(advice))[:MOST_ADVICE],
        (*claims, *_of_unread(scene, unread)),
        left_open=first.left_open,
    )
    return _as_sure_as_time(scene, verdict)


def _as_sure_as_time(scene: Scene, verdict: Verdict) -> Verdict:
    """What only time proves is the surer, the longer it stands against what would be an alarm here."""
    snapshot = scene.snapshot
    suspected = snapshot.stage is Stage.SUSPECTED and verdict.status is Status.HANG
    if not suspected or verdict.proof is not Proof.TIME:
        return verdict
    motion = moved(snapshot, verdict.culprit_members, scene.framework)
    still_s = snapshot.stalled_for_s if snapshot.still_s is None else snapshot.still_s
    limit_s = limit_of(snapshot, verdict, motion)
    settled = verdict.confidence
    sure = confidence.before_alarm(settled, still_s / limit_s)
    return replace(verdict, confidence=sure, settled=settled)


def _claims(finding: Finding) -> list[Claim | Addition]:
    """What is found, and who waits because of it."""
    held = stuck_in(_held(finding))
    return [*finding.claims, *([Held(held, len(named_by([finding])) == 1)] if held else [])]


def _held(finding: Finding) -> list[Wait]:
    return sorted(finding.held, key=lambda wait: (-len(wait.waiters), wait.label))


def undecided(scene: Scene, waits: Waits) -> Verdict:
    """Say what is missing. Never somebody else."""
    unread = not_read(scene)
    evidence = [line for wait in waits.all[:6] for line in wait_lines(wait, scene.names)]
    return Verdict(
        Status.UNDECIDED, None, Proof.TIME, 0.3, "", (), _waiting(scene, waits, set()), unread, tuple(evidence),
        advise(None, (), (), scene.names), (_not_known(scene, waits), *_of_unread(scene, unread)),
    )  # fmt: skip


def _not_known(scene: Scene, waits: Waits) -> Claim:
    blind = sorted({rank for wait in waits.all for rank in wait.blind})
    silent = tuple(sorted({int(rank) for rank in scene.members[waits.murky]}))
    may_wait = scene.live & (
        (scene.kind == Kind.DEVICE_SYNC) & ~scene.progress_read | scene.may_wait_for_device
    )
    if waits.all:
        # Those that were seen, and whose line does not tell whether they wait, are not called unread.
        seen = [rank for rank in blind if scene.rank_process(rank).doing.kind is not Kind.UNREAD]
        return MissingUnknown(
            stuck_in(waits.all),
            tuple(rank for rank in blind if rank not in seen),
            tuple(seen),
            not scene.progress_read[scene.live].all(),
            silent,
        )
    if silent:
        return CallUnknown(silent)
    if may_wait.any():
        return MayWaitForDevice(tuple(int(rank) for rank in scene.members[may_wait]))
    if not scene.live.any():
        return JobIs(State.NO_PROCESS)
    return JobIs(State.UNEXPLAINED if scene.snapshot.samples else State.NO_LOOK)


def _waiting(scene: Scene, waits: Waits, named: set[int]) -> tuple[Waiting, ...]:
    shown: list[Waiting] = []
    for wait in sorted(waits.all, key=lambda wait: (-len(wait.waiters), wait.label, wait.waiters)):
        waiters = tuple(rank for rank in wait.waiters if rank not in named or wait.targets or not named)
        if waiters:
            shown += as_waiting(wait, waiters, scene.names)
    return tuple(shown)


def not_read(scene: Scene) -> tuple[Unread, ...]:
    """What the agents said they could not read, and living ranks that no look shows. Who is gone needs no reading."""
    told = [
        replace(item, ranks=tuple(rank for rank in item.ranks if rank not in scene.gone_ranks))
        for item in scene.snapshot.unread
    ]
    said = [item for item in told if item.ranks]
    if scene.snapshot.samples:
        unseen = scene.live & (scene.kind == 0) & ~scene.said_unread
        by_reason: dict[str, list[int]] = {}
        for rank in scene.members[unseen]:
            reason = scene.rank_process(int(rank)).sighting.unread or "its stack was empty"
            by_reason.setdefault(reason, []).append(rank_of(int(rank)))
        said += [Unread(tuple(sorted(set(ranks))), reason) for reason, ranks in by_reason.items()]
    absent = unheard(scene)
    if absent.any() and not every_node_is_heard(scene):
        said.append(Unread(tuple(sorted({rank_of(int(rank)) for rank in scene.members[absent]})), NO_PROCESS))
    return tuple(sorted(said, key=lambda item: (item.ranks, item.reason)))


def _others_unread(unread: tuple[Unread, ...], named: set[int]) -> bool:
    return any(set(item.ranks) - {rank_of(member) for member in named} for item in unread)


def _of_unread(scene: Scene, unread: tuple[Unread, ...]) -> tuple[RanksUnread, ...]:
    ranks = {rank for item in unread for rank in item.ranks}
    return (RanksUnread(tuple(sorted(ranks)), scene.count_ranks),) if ranks else ()
