"""How deaths are told: a line of evidence each, and a deed for a summary. Deaths enter, text and values leave.

Never here: which death was the first, or whose fault it is (fault.py, unseen.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddetect.correlate.rules.consequence import is_consequence, was_asked
from ddetect.frameworks.framework import Framework
from ddetect.model import Departure, Gone
from ddetect.model.deeds import Act, Deed
from ddetect.report.words import first_line, name_signal

MOST_LINES = 8
_LATE = re.compile(r"timed out|timeout", re.IGNORECASE)


def death_lines(deaths: Sequence[Gone], framework: Framework) -> tuple[str, ...]:
    """Evidence: who died how, first to last."""
    return tuple(_death_line(gone, framework) for gone in _in_order(deaths)[:MOST_LINES])


def death_deeds(deaths: Sequence[Gone], framework: Framework) -> tuple[tuple[int, Deed], ...]:
    """How each rank ended, first to last."""
    return tuple((gone.rank, _end_of(gone, framework)) for gone in _in_order(deaths))


def _in_order(deaths: Sequence[Gone]) -> list[Gone]:
    return sorted(deaths, key=lambda gone: (-gone.age_s, gone.rank))


def _end_of(gone: Gone, framework: Framework) -> Deed:
    if gone.how is not Departure.RAISED:
        return Deed(Act.WAS_ENDED_BY, signal=gone.signal)
    if is_consequence(gone, framework) and _LATE.search(gone.exception):
        return Deed(Act.TIMED_OUT)
    return Deed(Act.RAISED, said=gone.exception)


def _death_line(gone: Gone, framework: Framework) -> str:
    at = f" at {gone.where.function} ({gone.where.file}:{gone.where.line})" if gone.where else ""
    what = f"raised {first_line(gone.exception)}{at}" if gone.how is Departure.RAISED else "vanished"
    what += f", killed by {name_signal(gone.signal)}," if gone.signal else ""
    note = " (a consequence)" if is_consequence(gone, framework) else ""
    note = " (somebody asked for it)" if was_asked(gone) else note
    return f"{framework.words.member} {gone.rank} (pid {gone.pid}) {what} {gone.age_s:.1f} s ago{note}"
