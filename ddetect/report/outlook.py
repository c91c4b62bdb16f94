"""How long it may still be before an alarm, and what stands still within the usual: in words.

Enters: values. Leaves: sentences for `ddetect status`. Never here: deciding, clocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ddetect.model import Culprit, Names
from ddetect.report.words import format_duration, format_where, name_members

_SITUATIONS = {
    "proven": "it contradicts progress by itself",
    "still": "nothing moves",
    "polls": "it only wakes up now and then",
    "undecided": "who is waited for is not known",
    "unread": "some ranks could not be read",
    "runs": "it runs, at the same place",
    "apart": "nobody waits for another",
    "works": "it works",
}


def outlook_words(situation: str, after_s: float, due_in_s: float, because: str) -> str:
    """Write "alarm in 4m10s if nothing moves: the limit here is 5m00s (nothing moves)"."""
    why = _SITUATIONS.get(situation, situation)
    if math.isinf(due_in_s):
        return f"No alarm while {why}" + (f": {because}." if because else ".")
    when = f"in {format_duration(due_in_s)}" if due_in_s > 0 else "after the next looks"
    said = f"Alarm {when} unless it moves: the limit is {format_duration(after_s)}, for {why}"
    return f"{said} ({because})." if because else f"{said}."


def noticed_words(culprits: Iterable[Culprit], names: Names, quiet_s: float, usual_s: float) -> str:
    """Write "rank 1 is in rollout.py:6 generate for 32 s; usual up to 3m00s"."""
    by_place: dict[str, list[int]] = {}
    for one in culprits:
        by_place.setdefault(format_where(one.where), []).append(one.member)
    who = [
        f"{name_members(members, names)} {'is' if len(members) == 1 else 'are'} in {place}"
        for place, members in by_place.items()
        if place
    ]
    stands = " and ".join(who[:2]) or "the job stands still"
    return f"{stands} for {format_duration(quiet_s)}; usual up to {format_duration(usual_s)}"
