"""Who died, was lost or was ended, in words. A claim about whole processes enters, text leaves.

Never here: what living members do (sentences.py), which death was the first (ddetect.correlate).
"""

from __future__ import annotations

from collections.abc import Sequence

from ddetect.model import Names
from ddetect.model.claims import (
    Aborted,
    CallsRefused,
    Claim,
    ExitedWith,
    FellSilent,
    LeftBehind,
    OldestDeaths,
    OnPurpose,
    RaisedFirst,
    Vanished,
    WorkersKilled,
)
from ddetect.model.deeds import Act, Deed, Side
from ddetect.report.deeds import call_words, deed_words, op_words, worker_words
from ddetect.report.words import first_line, format_where, name_members, name_signal

_MOST_WORDS = 2
_MOST_WORKERS = 3


def ending_words(claim: Claim, names: Names) -> str:
    """What is said of an end; nothing if the claim is not about one."""
    ranks = names.by_rank
    match claim:
        case RaisedFirst(named, exception, where, others, victims):
            at = f" in {format_where(where)}" if where else ""
            said = f"{name_members(named, ranks)} raised {first_line(exception)}{at}{' and more' if others else ''}"
            return f"{said}; {name_members(victims, ranks)} died of it" if victims else said
        case CallsRefused(sides, _, exception):
            calls = "; ".join(_refused(side, ranks) for side in sides)
            return f"{ranks.noun}s called collectives that do not fit: {calls}; refused with {first_line(exception)}"
        case ExitedWith(named, code, where):
            at = f"; last seen in {format_where(where)}" if where else ""
            return f"{name_members(named, ranks)} exited with code {code} without an exception{at}"
        case Aborted():
            return _aborted(claim, ranks)
        case Vanished():
            return _vanished(claim, ranks)
        case WorkersKilled(workers):
            several = [f"{worker_words(process)} of {ranks.words.member} {rank}" for rank, process in workers]
            if len(several) == 1:
                return f"{several[0]} was killed"
            if len(several) > _MOST_WORKERS:
                return f"{len(several)} loader workers of {name_members(claim.named, ranks)} were killed"
            return f"{' and '.join(several)} were killed"
        case LeftBehind(named, victims):
            left, dead = name_members(named, ranks), name_members(victims, ranks)
            return f"{left} left early; {dead} died of the closed connection"
        case OnPurpose(()):
            return "the job was ended by SIGTERM"
        case OnPurpose(interrupted):
            return f"the job was interrupted: somebody ended {name_members(interrupted, ranks)}"
        case FellSilent():
            return _silent(claim, ranks)
        case OldestDeaths(deeds):
            note = f"this usually follows from another {ranks.noun}'s fault, which was not seen"
            return f"{died(deeds, names)}; {note}"
        case _:
            return ""


def _refused(side: Side, ranks: Names) -> str:
    one = len(side.members) == 1
    verb = ("is" if one else "are") if side.seen else ("was" if one else "were")
    return f"{name_members(side.members, ranks)} {verb} in {format_where(side.where)}"


def died(deeds: Sequence[tuple[int, Deed]], names: Names) -> str:
    """Write "ranks 0-1 timed out; rank 3 raised ValueError: bad shard", in the order given."""
    ranks = names.by_rank
    by_words: dict[str, list[int]] = {}
    for rank, deed in deeds:
        said = f"raised {first_line(deed.said)}" if deed.act is Act.RAISED else deed_words(deed, ranks)
        by_words.setdefault(said, []).append(rank)
    parts = [f"{name_members(who, ranks)} {said}" for said, who in list(by_words.items())[:_MOST_WORDS]]
    rest = [rank for who in list(by_words.values())[_MOST_WORDS:] for rank in who]
    return "; ".join([*parts, f"{name_members(rest, ranks)} died as well"] if rest else parts)


def _vanished(claim: Vanished, ranks: Names) -> str:
    who, by = name_members(claim.named, ranks), name_signal(claim.signal)
    if not claim.signal and len(claim.named) > 1:
        return f"{who} vanished in the same moment; their exit codes were not seen"
    if len(claim.named) > 1:
        rest = f"each was killed by {by}" if claim.each else "one was killed, and the rest was ended after it"
        return f"{who} vanished in the same moment: {rest}"
    at = f"; last seen in {format_where(claim.where)}" if claim.where else ""
    if not claim.signal:
        return f"{who} (pid {claim.pid}) vanished; its exit code was not seen{at}"
    return f"{who} (pid {claim.pid}) vanished without a word: killed by {by}{at}"


def _aborted(claim: Aborted, ranks: Names) -> str:
    verb = "was" if len(claim.victims) == 1 else "were"
    op = op_words(claim.op, ranks)
    said = f"{name_members(claim.victims, ranks)} {verb} aborted inside {op}"
    if not claim.sides:
        return f"{said}: what a peer sent does not fit; which {ranks.noun} called something else is not known"
    parts = ", ".join(part.value for part in claim.parts)
    sides = "; ".join(called(side, ranks) for side in claim.sides)
    return f"{ranks.noun}s disagree on the {parts} of {op}: {sides}; {said}"


def called(side: Side, names: Names) -> str:
    """Write "ranks 0-1 called broadcast(root 0) in train.py:9 main"."""
    at = format_where(side.where)
    return f"{name_members(side.members, names)} called {call_words(side.call)}{f' in {at}' if at else ''}"


def _silent(claim: FellSilent, ranks: Names) -> str:
    nodes = " and ".join(f"{node} ({name_members(its, ranks)})" for node, its in claim.nodes)
    how = "waiting for an answer"
    if claim.closed:
        how = "of a closed connection" if len(claim.victims) == 1 else "of closed connections"
    said = f"{nodes} fell silent; {name_members(claim.victims, ranks)} died {how}"
    return said if claim.named else f"{said}; where it began is not known"
