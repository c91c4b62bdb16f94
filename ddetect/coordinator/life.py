"""The life of an incident: one table of what it becomes and who hears of it, and the values that it is on the way.

Enters: an incident or nothing, and what happened (`Turn`). Leaves: the next incident, and a command for who hears.
Every change of a stage is made here, attach's too. Never here: when (the triggers decide that), clocks, files.

| from                 | what happens                                              | to        | who hears |
|----------------------|-----------------------------------------------------------|-----------|-----------|
| -                    | still, but within what is usual there                     | noticed, no incident | status |
| -, noticed           | a trigger suspects, and a judgement says something        | suspected | disk, status |
| noticed              | it moves again, or the job ends                           | -         | nobody    |
| suspected, confirmed | looks say otherwise; or members die of it                 | as it was | disk      |
| suspected            | looks agree on what contradicts progress; its time is up  | confirmed | alarm     |
| suspected            | it moves again; the job ends well; another reason is found | withdrawn | `pauses.jsonl` |
| suspected, confirmed | somebody, or an error, ends the job; it is restarted      | closed, cause unchanged | disk |
| confirmed            | it moves again; the job ends well; another reason is found | closed    | disk, terminal |
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from ddetect.coordinator.events import Record, Withdraw
from ddetect.coordinator.opinion import key
from ddetect.model import Closed, Incident, Judgement, Proof, Snapshot, Stage, Status, Verdict

KEPT_EVIDENCE = 16  # lines of a verdict that are kept when deaths are added to it


class Turn(Enum):
    """What may happen to an incident."""

    SAID = "a judgement says something"
    PROVEN = "it is proven"
    MOVES = "it moves again"
    ENDS_WELL = "the job ends well"
    ENDS = "somebody, or an error, ends the job"
    REPLACED = "another reason is found"


_NEXT: dict[tuple[Stage | None, Turn], Stage] = {
    (None, Turn.SAID): Stage.SUSPECTED,
    (Stage.SUSPECTED, Turn.SAID): Stage.SUSPECTED,
    (Stage.SUSPECTED, Turn.PROVEN): Stage.CONFIRMED,
    (Stage.SUSPECTED, Turn.MOVES): Stage.WITHDRAWN,
    (Stage.SUSPECTED, Turn.ENDS_WELL): Stage.WITHDRAWN,
    (Stage.SUSPECTED, Turn.REPLACED): Stage.WITHDRAWN,
    (Stage.SUSPECTED, Turn.ENDS): Stage.CLOSED,
    (Stage.CONFIRMED, Turn.SAID): Stage.CONFIRMED,
    (Stage.CONFIRMED, Turn.MOVES): Stage.CLOSED,
    (Stage.CONFIRMED, Turn.ENDS_WELL): Stage.CLOSED,
    (Stage.CONFIRMED, Turn.REPLACED): Stage.CLOSED,
    (Stage.CONFIRMED, Turn.ENDS): Stage.CLOSED,
}
"""The table. What is not in it cannot happen: a KeyError is a fault of ours, and the event is undone."""


def said(
    before: Incident | None, number: int, verdict: Verdict, snapshot: Snapshot, unix_ns: int
) -> Incident:
    """A judgement opens an incident, or is the next word about one; what was said before is kept when it differs."""
    stage = _NEXT[before.stage if before else None, Turn.SAID]
    if before is None:
        return Incident(
            number=number,
            stage=stage,
            verdict=verdict,
            job=snapshot.job,
            attempt=snapshot.attempt,
            world_size=snapshot.world_size,
            stalled_for_s=snapshot.stalled_for_s,
            last_progress_unix_ns=unix_ns - int(snapshot.stalled_for_s * 1e9),
            judged_at_unix_ns=unix_ns,
            said_at_unix_ns=unix_ns,
            members=snapshot.members,
        )
    anew = key(verdict) != key(before.verdict)
    return replace(
        before,
        stage=stage,
        verdict=verdict,
        stalled_for_s=snapshot.stalled_for_s,
        history=(*before.history, _words(before)) if anew else before.history,
        said_at_unix_ns=unix_ns if anew else before.said_at_unix_ns,
    )


def proven(incident: Incident, unix_ns: int) -> Incident:
    """Now it is an alarm."""
    stage = _NEXT[incident.stage, Turn.PROVEN]
    verdict = incident.verdict
    if verdict.settled is not None:  # time has proven it
        verdict = replace(verdict, confidence=verdict.settled, settled=None)
    return replace(incident, stage=stage, verdict=verdict, confirmed_at_unix_ns=unix_ns)


def over(
    incident: Incident, snapshot: Snapshot, turn: Turn, reason: str, lasted_s: float, unix_ns: int
) -> Record | Withdraw:
    """It is over: closed with the reason as its last line, or withdrawn as if nobody had ever said a word."""
    stage = _NEXT[incident.stage, turn]
    if stage is Stage.WITHDRAWN:
        return Withdraw(replace(incident, stage=stage), reason, lasted_s, unix_ns)
    recovered = turn in (Turn.MOVES, Turn.ENDS_WELL)
    ended = replace(
        incident,
        stage=stage,
        stalled_for_s=lasted_s,
        closed=Closed(reason, lasted_s, unix_ns, recovered),
        history=(*incident.history, _words(incident)),
    )
    return Record(ended, snapshot)


def explains(
    named: Verdict | None, *, confirmed: bool, verdict: Verdict, origin: bool, last: bool = False
) -> bool:
    """Whether ranks died of what is open. `verdict` is of a look after the deaths; `origin`: one raised a fault.

    An alarm explains every death that is not an error of its own: somebody or something ended the job. A suspicion
    explains who waited in vain, and what only time can tell. Who was named when some were dead already is asked again,
    until the job ends (`last`).
    """
    if named is None or verdict.status is not Status.STOPPED:
        return False
    if named.status is Status.STOPPED and not last:
        return False
    same = (named.cause, named.culprit_ranks) == (verdict.cause, verdict.culprit_ranks)
    return same or verdict.proof is Proof.TIME or (confirmed and not origin)


def with_deaths(verdict: Verdict, lines: tuple[str, ...]) -> Verdict:
    """The same answer, with the deaths that followed as evidence."""
    return replace(verdict, evidence=tuple(dict.fromkeys((*verdict.evidence[:KEPT_EVIDENCE], *lines))))


def same_words(one: Verdict, other: Verdict) -> bool:
    """Whether a reader would find nothing new."""
    return key(one) == key(other) and one.confidence == other.confidence


def _words(incident: Incident) -> Judgement:
    verdict = incident.verdict
    return Judgement(
        incident.stage,
        verdict.status,
        verdict.cause,
        verdict.culprit_ranks,
        verdict.summary,
        incident.said_at_unix_ns,
    )
