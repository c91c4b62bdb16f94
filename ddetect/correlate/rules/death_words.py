"""How deaths are told: a line of evidence each, and a few words for a summary. Deaths enter, text leaves.

Never here: which death was the first, or whose fault it is (fault.py, unseen.py).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from ddetect.correlate.phrases import ranks_words
from ddetect.correlate.rules.consequence import is_consequence, was_asked
from ddetect.frameworks.framework import Framework
from ddetect.model import Departure, Gone

MOST_LINES = 8
_MOST_WORDS = 2
_LATE = re.compile(r"timed out|timeout", re.IGNORECASE)


def death_lines(deaths: Sequence[Gone], framework: Framework) -> tuple[str, ...]:
    """Evidence: who died how, first to last."""
    return tuple(_death_line(gone, framework) for gone in _in_order(deaths)[:MOST_LINES])


def deaths_words(deaths: Sequence[Gone], framework: Framework) -> str:
    """Write "ranks 0-1 timed out; rank 3 raised ValueError: bad shard", first to last."""
    by_words: dict[str, list[int]] = {}
    for gone in _in_order(deaths):
        by_words.setdefault(_end_of(gone, framework), []).append(gone.rank)
    parts = [f"{ranks_words(ranks)} {words}" for words, ranks in list(by_words.items())[:_MOST_WORDS]]
    rest = [rank for ranks in list(by_words.values())[_MOST_WORDS:] for rank in ranks]
    return "; ".join([*parts, f"{ranks_words(rest)} died as well"] if rest else parts)


def signal_name(gone: Gone) -> str:
    """Write "SIGKILL", or "a signal" where nobody told which."""
    try:
        return signal.Signals(gone.signal).name
    except ValueError:
        return f"signal {gone.signal}" if gone.signal else "a signal"


def first_line(exception: str) -> str:
    """The error in one line that fits into a sentence."""
    line = exception.strip().splitlines()[0] if exception.strip() else "an exception"
    return line if len(line) <= 120 else line[:117] + "..."


def _in_order(deaths: Sequence[Gone]) -> list[Gone]:
    return sorted(deaths, key=lambda gone: (-gone.age_s, gone.rank))


def _end_of(gone: Gone, framework: Framework) -> str:
    if gone.how is not Departure.RAISED:
        return f"ended by {signal_name(gone)}"
    if is_consequence(gone, framework) and _LATE.search(gone.exception):
        return "timed out"
    return f"raised {first_line(gone.exception)}"


def _death_line(gone: Gone, framework: Framework) -> str:
    at = f" at {gone.where.function} ({gone.where.file}:{gone.where.line})" if gone.where else ""
    what = f"raised {first_line(gone.exception)}{at}" if gone.how is Departure.RAISED else "vanished"
    what += f", killed by {signal_name(gone)}," if gone.signal else ""
    note = " (a consequence)" if is_consequence(gone, framework) else ""
    note = " (somebody asked for it)" if was_asked(gone) else note
    return f"rank {gone.rank} (pid {gone.pid}) {what} {gone.age_s:.1f} s ago{note}"
