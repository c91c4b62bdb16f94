"""The summary: claims in words, the only place where what was found becomes English.

Enters: claims and how the job's members are called. Leaves: one line, parts divided by semicolons; what is left out to
stay a sentence is counted. Never here: I/O, judging, evidence lines (the rules still write those).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ddetect.model import Names
from ddetect.model.claims import (
    Addition,
    AlsoDied,
    Circle,
    Claim,
    DeviceBehind,
    Disagree,
    Each,
    Held,
    NobodyLeaves,
    NobodyMeets,
    OwnGroups,
    RanksUnread,
)
from ddetect.model.deeds import Part, Side, Through
from ddetect.rankset import format_members
from ddetect.report.deeds import deed_words, op_words, waiting_words
from ddetect.report.endings import called, died, ending_words
from ddetect.report.states import state_words
from ddetect.report.words import PLAIN, format_where, list_members, name_members

MOST_SAID = 2
"""Parts of a sentence: what is left out is counted."""


def say(claims: Sequence[Claim | Addition], names: Names = PLAIN) -> str:
    """What is found, who goes unsaid, and what is added to it."""
    found = [claim for claim in claims if not isinstance(claim, Addition)]
    added = [add_words(claim, names) for claim in claims if isinstance(claim, Addition)]
    return "; ".join(part for part in (*_found(found, names), *added) if part)


def _found(claims: Sequence[Claim], names: Names) -> list[str]:
    """The first two that differ, and the members that neither names."""
    told = {claim: claim_words(claim, names) for claim in claims}
    said = list(dict.fromkeys(told.values()))[:MOST_SAID]
    shown = [claim for claim in claims if told[claim] in said]
    named = {member for claim in shown for member in claim.named}
    named -= {member for claim in shown for member in _unsaid(claim, names)}
    rest = {member for claim in claims for member in claim.named} - named
    more = len(set(told.values())) - len(said)
    # Claims about operations name nobody: then they are counted.
    return [*said, *([f"{more} more like them"] if more and not rest else []), _more(rest, names)]


def claim_words(claim: Claim, names: Names = PLAIN) -> str:
    """One claim."""
    noun = names.noun
    match claim:
        case Each():
            return "; ".join(
                _each(members, said, names) for said, members in _parts(claim, names)[:MOST_SAID]
            )
        case Disagree():
            return _disagree(claim, names)
        case Circle():
            through = {
                Through.GROUPS: "groups",
                Through.SEND_AND_RECEIVE: "send and receive",
                Through.MIXED: "a send or receive and a collective",
            }[claim.through]
            who = name_members(claim.named, names)
            return f"{who} wait for each other through {through}: {waiting_words(claim.waits, names)}"
        case OwnGroups(inner, rest):
            alone = f"{side_words(inner, names)}, in groups of their own, and do not come out"
            return f"{alone}; {side_words(rest, names)} waiting for them"
        case NobodyLeaves():
            return _nobody_leaves(claim, names)
        case NobodyMeets(()):
            return f"every {noun} is in {names.words.join} and none comes out: they do not find each other"
        case NobodyMeets(named):
            return f"{name_members(named, names)} cannot join, though every other {noun} has joined"
        case DeviceBehind(named, begun, op):
            who = name_members(named, names) if len(named) == 1 else f"each of {name_members(named, names)}"
            word = "has not finished" if begun else "has not begun"
            return f"the device of {who} {word} {op_words(op, names)}, which every {noun} has enqueued"
        case _:
            return ending_words(claim, names) or state_words(claim, names)


def add_words(claim: Addition, names: Names = PLAIN) -> str:
    """What is added to a finding."""
    match claim:
        case Held(waits, for_one):
            return waiting_words(waits, names, it="it" if for_one else "them")
        case AlsoDied(deeds):
            return died(deeds, names)
        case RanksUnread(ranks, world):
            noun = names.words.member
            return f"{len(ranks)} of {world} {noun}s unread ({list_members(ranks)})"


def side_words(side: Side, names: Names = PLAIN) -> str:
    """Write "ranks 0-1 called broadcast(root 0) in train.py:9 main": also a line of evidence."""
    who, at = name_members(side.members, names), format_where(side.where)
    if not side.seen:
        return called(side, names)
    root = f" from root {format_members((side.call.root,))}" if side.call.root >= 0 else ""
    verb = "is" if len(side.members) == 1 else "are"
    return f"{who} {verb} in {side.call.op}{root}{f' at {at}' if at else ''}"


def _parts(claim: Each, names: Names) -> list[tuple[str, list[int]]]:
    """What is said of whom: those that do the same stand together."""
    by_words: dict[str, list[int]] = {}
    for member, deed in claim.deeds:
        by_words.setdefault(deed_words(deed, names), []).append(member)
    return list(by_words.items())


def _unsaid(claim: Claim, names: Names) -> list[int]:
    if not isinstance(claim, Each):
        return []
    return [member for _, members in _parts(claim, names)[MOST_SAID:] for member in members]


def _each(members: Sequence[int], said: str, names: Names) -> str:
    who = name_members(members, names)
    return f"{who} {said}" if len(set(members)) == 1 else f"each of {who} {said}"


def _more(members: Iterable[int], names: Names) -> str:
    count = len(several := sorted(set(members)))
    noun = f"{names.noun}{'s' if count > 1 else ''}"
    return f"and {count} more {noun} ({list_members(several, names)})" if count else ""


def _disagree(claim: Disagree, names: Names) -> str:
    sides = "; ".join(side_words(side, names) for side in claim.sides)
    if claim.op is None:
        parts = ", ".join("operation" if part is Part.OP else part.value for part in claim.parts)
        return f"{names.noun}s disagree on the {parts} in the default group: {sides}"
    group = f" of {claim.op.group}" if claim.op.group else ""
    parts = ", ".join(part.value for part in claim.parts)
    return f"{names.noun}s disagree on the {parts} of #{claim.op.seq}{group}: {sides}"


def _nobody_leaves(claim: NobodyLeaves, names: Names) -> str:
    if claim.side is not None:
        return f"everyone is in and nobody comes out: {side_words(claim.side, names)}"
    waiters, op = name_members(claim.waiters, names), op_words(claim.op, names)
    if claim.some_left:
        return f"{waiters} cannot leave {op}, which all entered: it is stuck below Python"
    why = "every member is in it, with the same call"
    if claim.partners:
        why = f"{waiters} and {name_members(claim.partners, names)} met"
    return f"everyone is in and nobody comes out of {op}: {why}, so it is stuck below Python"
