"""What is said where nobody is named: the job is well, or what is missing to tell. A claim enters, text leaves.

Never here: judging.
"""

from __future__ import annotations

from ddetect.model import Names
from ddetect.model.claims import (
    CallUnknown,
    Claim,
    JobIs,
    MayWaitForDevice,
    MissingUnknown,
    State,
    StepUntold,
)
from ddetect.report.deeds import waiting_words
from ddetect.report.words import format_where, name_members


def state_words(claim: Claim, names: Names) -> str:
    """What is said of the job as a whole."""
    match claim:
        case MissingUnknown():
            return f"{waiting_words(claim.waits, names)}; {_missing(claim, names)}"
        case CallUnknown(members):
            who, inside = name_members(members, names), names.words.inside
            return f"{who} are inside {inside}, and no recorder tells in which operation"
        case MayWaitForDevice(members):
            what = "its device" if len(members) == 1 else "their devices"
            return f"{name_members(members, names)} may wait for {what}, and no recorder tells in which operation"
        case StepUntold():
            return _step(claim, names)
        case JobIs(state, since_s):
            return _job(state, since_s, names)
        case _:
            raise AssertionError(f"{claim} has no words")


def _missing(claim: MissingUnknown, names: Names) -> str:
    if claim.unread or claim.may_wait:
        parts = [f"{name_members(claim.unread, names)} could not be read"] if claim.unread else []
        parts += [f"{name_members(claim.may_wait, names)} may wait as well"] if claim.may_wait else []
        return f"{' and '.join(parts)}, so who is missing is not known"
    unknown = ": not every recorder could be read" if claim.recorders_unread else ""
    unsure = ""
    if claim.unsure:
        unsure = f"; {name_members(claim.unsure, names)} may be in it, or in another operation"
    return f"who is missing is not known{unknown}{unsure}"


_REPLICAS = "a compiled step does not show which, and its replicas, if it has several, cannot be told apart"


def _step(claim: StepUntold, names: Names) -> str:
    who, at = name_members(claim.members, names), format_where(claim.where)
    verb = "is" if len(claim.members) == 1 else "are all"
    said = f"{who} {verb} inside a step{f' at {at}' if at else ''} that does not end"
    if claim.replicas:
        return f"{said}: it computes, or waits for data or for a reduction; {_REPLICAS}"
    if len(claim.members) == 1:
        return f"{said}: whether it waits for its data or for others is not known"
    return f"{said}: one of them waits for its data, or all wait below Python, and nothing tells them apart"


def _job(state: State, since_s: float, names: Names) -> str:
    noun = names.noun
    return {
        State.NO_PROCESS: f"no {names.words.member} process is known",
        State.NO_LOOK: "no look at the processes was taken yet",
        State.UNEXPLAINED: "nothing in the stacks or the collectives explains a stall",
        State.ENDED: f"every {noun} has ended without an error",
        State.OVER: f"training is over: every {noun} has left its group",
        State.MOVES_WITHOUT_STEPS: f"no step for {since_s:.1f} s, but every {noun} still moves",
        State.MOVES: f"every {noun} moves",
    }[state]
