"""The life of an incident, as values: opened, judged again, confirmed, closed.

Enters: an incident or nothing, and a verdict. Leaves: the next incident. Never here: when (state.py decides that).
"""

from __future__ import annotations

from dataclasses import replace

from ddetect.model import Closed, Incident, Judgement, Proof, Snapshot, Stage, Status, Verdict

KEPT_EVIDENCE = 16  # lines of a verdict that are kept when deaths are added to it


def opened(number: int, verdict: Verdict, snapshot: Snapshot, unix_ns: int) -> Incident:
    """A suspicion, with its first judgement."""
    return Incident(
        number=number,
        stage=Stage.SUSPECTED,
        verdict=verdict,
        job=snapshot.job,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        stalled_for_s=snapshot.stalled_for_s,
        last_progress_unix_ns=unix_ns - int(snapshot.stalled_for_s * 1e9),
        judged_at_unix_ns=unix_ns,
        members=snapshot.members,
    )


def rejudged(incident: Incident, verdict: Verdict, snapshot: Snapshot, unix_ns: int) -> Incident:
    """The same incident, seen again; what was said before is kept when it was different."""
    history = incident.history
    if key(verdict) != key(incident.verdict):
        history = (*history, _said(incident, unix_ns))
    return replace(incident, verdict=verdict, stalled_for_s=snapshot.stalled_for_s, history=history)


def confirmed(incident: Incident, unix_ns: int) -> Incident:
    """Now it is an alarm."""
    return replace(incident, stage=Stage.CONFIRMED, confirmed_at_unix_ns=unix_ns)


def closed(
    incident: Incident, reason: str, lasted_s: float, unix_ns: int, *, recovered: bool = False
) -> Incident:
    """It is over, and why; `recovered`: the job went on."""
    return replace(
        incident,
        stage=Stage.CLOSED,
        stalled_for_s=lasted_s,
        closed=Closed(reason, lasted_s, unix_ns, recovered),
        history=(*incident.history, _said(incident, unix_ns)),
    )


def stays_named(named: Verdict, verdict: Verdict, *, last: bool) -> bool:
    """Who was named in a stall stays named when ranks die that no fault of their own ended: they died of the stall.

    Who was named when some were dead already is asked again, until the job ends (`last`).
    """
    if verdict.status is not Status.STOPPED or (named.status is Status.STOPPED and not last):
        return False
    same = (named.cause, named.culprit_ranks) == (verdict.cause, verdict.culprit_ranks)
    return verdict.proof is Proof.TIME or same


def with_deaths(verdict: Verdict, lines: tuple[str, ...]) -> Verdict:
    """The same answer, with the deaths that followed as evidence."""
    return replace(verdict, evidence=tuple(dict.fromkeys((*verdict.evidence[:KEPT_EVIDENCE], *lines))))


def key(verdict: Verdict) -> tuple[object, ...]:
    """What makes two verdicts the same answer."""
    return (verdict.status, verdict.cause, verdict.culprit_members)


def same_words(one: Verdict, other: Verdict) -> bool:
    """Whether a reader would find nothing new."""
    return key(one) == key(other) and one.confidence == other.confidence


def _said(incident: Incident, unix_ns: int) -> Judgement:
    verdict = incident.verdict
    return Judgement(
        incident.stage, verdict.status, verdict.cause, verdict.culprit_ranks, verdict.summary, unix_ns
    )
