"""How long may nothing move before that is an alarm? The table of limits (its words: ddetect/table_of_limits.py).

Enters: what was found, how the members that are waited for move, what is usual where they stand. Leaves: the situation
and its limit, for the coordinator (when to alarm), the judge (how sure to be) and people (which limit runs). Pure.
Never here: clocks, what motion is (motion.py), what the job has taught of itself (the coordinator's patience).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from posixpath import basename

import numpy as np

from ddetect.correlate.motion import Motion
from ddetect.model import Beats, Limit, OpState, Phase, Proof, Settings, Snapshot, Status, Verdict

LEARNED_STEPS = 5
"""Before so many steps a job has no rhythm: imports, data sets and compilers take their time."""

USUAL_MARGIN = 3.0  # alarms are dearer than looks: so many times the longest healthy gap at this place
PUT_OFF = 3.0  # limits: the most that polling, an open question or unread ranks put an alarm off
PUT_OFF_FAR = 10.0  # patiences: the most that running does, and the end of everything that is learned
_MOST_PLACES = 4


class Situation(str, Enum):
    """What an alarm waits for. The longest limit that fits counts."""

    PROVEN = "proven"  # it contradicts progress by itself
    STILL = "still"  # somebody waits, or the job has one member, and nothing moves
    POLLS = "polls"  # somebody who is waited for wakes up now and then, or moves a few bytes
    UNDECIDED = "undecided"  # who is waited for is not known
    UNREAD = "unread"  # nothing could be read of somebody
    RUNS = "runs"  # somebody who is waited for uses a core, at the same place
    APART = "apart"  # several ranks, and nobody waits for another
    WORKS = "works"  # somebody who is waited for gets on, or the job is ending meanwhile


def usual_s(limits: Iterable[Limit], phase: Phase, place: str) -> float:
    """The longest healthy gap at a place, and those of its phase whose place nobody knows; 0 if none is known."""
    fits = (one.longest_s for one in limits if one.phase is phase and one.place in ("", place))
    return max(fits, default=0.0)


def still_limit_s(settings: Settings, usual: float, *, starting: bool = False) -> float:
    """L: how long nothing may move while somebody waits."""
    patience = settings.patience_s
    if starting:
        return patience
    return min(max(patience, USUAL_MARGIN * usual), PUT_OFF_FAR * patience)


def alarm_after_s(situation: Situation, settings: Settings, usual: float, *, starting: bool = False) -> float:
    """The table."""
    limit, most = still_limit_s(settings, usual, starting=starting), PUT_OFF_FAR * settings.patience_s
    match situation:
        case Situation.PROVEN:
            return 0.0
        case Situation.STILL:
            return limit
        case Situation.POLLS | Situation.UNDECIDED | Situation.UNREAD:
            return min(PUT_OFF * limit, most)
        case Situation.RUNS:
            return max(settings.patience_s, settings.startup_patience_s) if starting else most
        case Situation.APART:
            return most
        case Situation.WORKS:
            return math.inf


def situation_of(verdict: Verdict, *, members: int, unread: bool = False) -> Situation:
    """What stands there, motion aside. `unread`: nothing could be read of somebody who matters."""
    if verdict.proof is Proof.STRUCTURAL and verdict.status is not Status.UNDECIDED:
        return Situation.PROVEN
    if verdict.status is Status.STOPPED:
        return Situation.STILL  # the dead do not move, and nobody need wait for them
    if not verdict.waiting and members > 1:
        return Situation.APART
    if verdict.status is Status.UNDECIDED:
        return Situation.UNDECIDED
    return Situation.UNREAD if unread else Situation.STILL


def limit_of(snapshot: Snapshot, verdict: Verdict, motion: Motion) -> float:
    """After how long such a stillness would be an alarm, as it is now; inf: never."""
    usual = usual_s(snapshot.limits, snapshot.phase, place_of(verdict))
    starting = steps_done(snapshot.beats) < LEARNED_STEPS
    fits = [situation_of(verdict, members=snapshot.known_members, unread=nothing_read(snapshot))]
    fits += [Situation.POLLS] if motion.polls else []
    fits += [Situation.RUNS] if motion.runs else []
    fits += [Situation.WORKS] if motion.works else []
    return max(alarm_after_s(one, snapshot.settings, usual, starting=starting) for one in fits)


def steps_done(beats: Beats) -> int:
    """Steps of the member that has most; a loop without an optimizer is counted by its batches and calls, several to
    a step.
    """
    if not len(beats):
        return 0
    return int(beats.step.max()) or int((beats.batch + beats.calls + beats.collectives).max()) // 4


def place_of(verdict: Verdict) -> str:
    """Where those stand that are named: "rollout.py:generate", each function once; empty if no line is known."""
    where = (one.where for one in verdict.culprits if one.where is not None)
    functions = sorted({f"{basename(one.file)}:{one.function}" for one in where})
    return "|".join(functions[:_MOST_PLACES])


def nothing_read(snapshot: Snapshot) -> bool:
    """Whether of some living rank the newest look has nothing at all: no counter of the kernel, no stack, no page."""
    sample = snapshot.newest.sample
    blank = np.array([not one.state for one in sample.sightings], bool)
    seen = sample.rank[~blank[sample.sighting]] if len(sample) else sample.rank
    gone = [one.rank for one in snapshot.gone]
    return bool(np.setdiff1d(snapshot.roster.rank, np.concatenate([seen, np.array(gone, np.int64)])).size)


def time_out(snapshot: Snapshot, verdict: Verdict) -> tuple[float, float]:
    """How long the operation may last in which others wait, by its own time-out, and how much is left; inf: no word."""
    ops = snapshot.comms.ops
    waiting = np.array(sorted({rank for one in verdict.waiting for rank in one.ranks}), np.int64)
    rows = np.isin(ops.rank, waiting) & (ops.state != OpState.COMPLETED) & np.isfinite(ops.age_s)
    rows &= np.isfinite(ops.timeout_s) & (ops.age_s < ops.timeout_s)  # one that has outlived it has none
    if not rows.any():
        return math.inf, math.inf
    left = ops.timeout_s[rows] - ops.age_s[rows]
    first = int(np.argmin(left))
    return float(ops.timeout_s[rows][first]), float(left[first])
