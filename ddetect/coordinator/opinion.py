"""What a look says: evidence of all nodes is joined and judged, off the event loop. A Case enters, an Opinion leaves.

Everything that the state machine wants to know of a snapshot is found here in one go: who is named, whose native stack
would help, who moved, whether the dead were meant to die. Pure. Never here: time limits, what an incident becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ddetect.coordinator.gather import join_looks
from ddetect.correlate.judge import examine, judge
from ddetect.correlate.limits import nothing_read, place_of, time_out
from ddetect.correlate.motion import Motion, moved
from ddetect.correlate.usual import stands_s
from ddetect.model import Cause, Look, Proof, Snapshot, Stage, Status, Unread, Verdict

Answer = tuple[object, ...]
JudgeBy = Callable[[Snapshot], Verdict]
_NO_MOTION = Motion()


@dataclass(frozen=True, slots=True)
class Case:
    """A snapshot with its earlier looks, and the parts of the newest one. Without parts: judge what there is."""

    ticket: int
    snapshot: Snapshot
    parts: tuple[Look, ...] = ()
    unread: tuple[Unread, ...] = ()  # what no node told
    alone: tuple[Answer | None, ...] = ()  # what each earlier look says by itself, where that was asked
    decide: bool = True  # else there will be more looks first
    last: bool = False  # the job has failed: there will be no later moment
    error: bool = False  # a rank has died of an exception of its own


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was found. Without a verdict it was too early to decide."""

    ticket: int
    snapshot: Snapshot
    verdict: Verdict | None = None
    alone: tuple[Answer | None, ...] = ()
    native: tuple[int, ...] = ()
    asked: bool = False  # somebody wanted the dead to die
    deaths: tuple[str, ...] = ()  # a line each
    motion: Motion = _NO_MOTION
    stands_s: float = 0.0  # a pause that the framework is known to make where the culprits are
    place: str = ""  # where those stand that are named
    members: int = 1
    unread: bool = False  # of somebody nothing at all could be read
    timeout_s: float = (
        math.inf
    )  # how long the operation lasts at most in which others wait, by its own time-out,
    times_out_in_s: float = math.inf  # and how much of that is left
    last: bool = False
    error: bool = False
    fault: str = ""  # why there is no judgement: a fault of ours


def form_opinion(case: Case, judge: JudgeBy | None = None) -> Opinion:
    """Join, judge and look for motion. Never raises: a fault of ours is an undecided verdict that says so."""
    snapshot, alone = case.snapshot, case.alone
    try:
        if case.parts or case.unread or not snapshot.looks:
            snapshot = replace(snapshot, looks=(*snapshot.looks, join_looks(case.parts, case.unread)))
        alone = (*alone, *[None] * (len(snapshot.looks) - len(alone)))
        kept = max(1, snapshot.settings.samples)
        snapshot, alone = replace(snapshot, looks=snapshot.looks[-kept:]), alone[-kept:]
        return _opinion(case, snapshot, alone, judge)
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"[:300]
        return Opinion(
            case.ticket, snapshot, _at_fault(fault), alone, last=case.last, error=case.error, fault=fault
        )


def _opinion(
    case: Case, snapshot: Snapshot, alone: tuple[Answer | None, ...], judge_by: JudgeBy | None
) -> Opinion:
    seen = examine(snapshot, decide=case.decide and judge_by is None)
    if not case.decide:
        return Opinion(case.ticket, snapshot, None, alone, seen.native)
    verdict = judge_by(snapshot) if judge_by is not None else seen.verdict
    assert verdict is not None
    undecided = verdict.status is Status.UNDECIDED
    if verdict.proof is Proof.STRUCTURAL and not undecided and snapshot.stage is Stage.SUSPECTED:
        by = judge_by or judge
        alone = tuple(
            key(by(replace(snapshot, looks=(look,)))) if said is None else said
            for said, look in zip(alone, snapshot.looks, strict=True)
        )
    ranks = concerned(verdict, snapshot)
    return Opinion(
        case.ticket,
        snapshot,
        verdict,
        alone,
        seen.native,
        seen.asked,
        seen.deaths,
        moved(snapshot, ranks),
        stands_s(snapshot, verdict.culprit_ranks) if verdict.proof is Proof.TIME else 0.0,
        place_of(verdict),
        snapshot.known_members,
        nothing_read(snapshot),
        *time_out(snapshot, verdict),
        case.last,
        case.error,
    )


def concerned(verdict: Verdict, snapshot: Snapshot) -> tuple[int, ...]:
    """Whose motion contradicts the verdict."""
    ranks = verdict.culprit_ranks
    if not ranks or (verdict.cause is Cause.LEFT_EARLY and not verdict.waiting):
        # Everybody leaves one day, and somebody is last: while anyone moves, the job is ending, not stuck.
        return tuple(int(rank) for rank in snapshot.roster.rank)
    return ranks


def key(verdict: Verdict) -> Answer:
    """What makes two verdicts the same answer."""
    return (verdict.status, verdict.cause, verdict.culprit_members)


def _at_fault(fault: str) -> Verdict:
    return Verdict(
        Status.UNDECIDED,
        None,
        Proof.TIME,
        0.1,
        f"the job stands still, and ddetect failed to judge it ({fault})",
        advice=("Please report this with the incident's folder: it is a fault of ddetect.",),
    )
