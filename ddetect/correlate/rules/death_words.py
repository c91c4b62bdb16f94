"""How deaths are told: a line of evidence each, and a deed for a summary. Deaths enter, text and values leave.

Never here: which death was the first, or whose fault it is (fault.py, unseen.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddetect.correlate.rules.abort_calls import abort_label, is_aborted_inside
from ddetect.correlate.rules.consequence import is_consequence, is_unseen, only_exited, was_asked
from ddetect.frameworks.framework import Framework
from ddetect.model import Departure, Gone, Names
from ddetect.model.deeds import Act, Deed
from ddetect.report.deeds import op_words
from ddetect.report.words import first_line, name_members, name_signal

MOST_LINES = 8
MOST_STDERR = 12
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
    if is_aborted_inside(gone, framework):
        return Deed(Act.WAS_ABORTED, op=abort_label(gone))
    if is_unseen(gone):
        return Deed(Act.VANISHED)
    if only_exited(gone):
        return Deed(Act.EXITED_WITH, said=str(gone.code))
    if gone.how is not Departure.RAISED:
        return Deed(Act.WAS_ENDED_BY, signal=gone.signal)
    if is_consequence(gone, framework) and _LATE.search(gone.exception):
        return Deed(Act.TIMED_OUT)
    return Deed(Act.RAISED, said=gone.exception)


def stderr_lines(deaths: Sequence[Gone], names: Names, most: int = MOST_STDERR) -> tuple[str, ...]:
    """Evidence: what the first of them that left any wrote last."""
    for gone in _in_order(deaths):
        if gone.stderr:
            who = name_members((gone.rank,), names.by_rank)
            return tuple(f"stderr of {who}: {line}" for line in gone.stderr[-most:])
    return ()


def _what(gone: Gone, framework: Framework) -> str:
    if is_aborted_inside(gone, framework):
        op = op_words(abort_label(gone)) if abort_label(gone).name else "an operation with others"
        said = f" with {first_line(gone.exception)}" if gone.exception else ""
        return f"was aborted inside {op}{said}"
    if only_exited(gone):
        return f"exited with code {gone.code} without an exception"
    if gone.how is Departure.RAISED:
        return f"raised {first_line(gone.exception)}"
    if is_unseen(gone):
        return "vanished, its exit code was not seen,"
    return f"ended with {first_line(gone.exception)}" if gone.exception else "vanished"


def _death_line(gone: Gone, framework: Framework) -> str:
    at = f" at {gone.where.function} ({gone.where.file}:{gone.where.line})" if gone.where else ""
    what = _what(gone, framework) + at
    what += f", killed by {name_signal(gone.signal)}," if gone.signal else ""
    note = " (a consequence)" if is_consequence(gone, framework) else ""
    note = " (somebody asked for it)" if was_asked(gone) else note
    return f"{framework.words.member} {gone.rank} (pid {gone.pid}) {what} {gone.age_s:.1f} s ago{note}"
