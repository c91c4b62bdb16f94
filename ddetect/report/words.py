"""Small words that every report uses: durations, clock times, names of ranks, harmless text.

Enters: numbers and strings, some of them from the job. Leaves: text that is safe on a terminal.
Never here: I/O, colours, whole reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timezone

from ddetect.rankset import format_ranks


def clean(text: str) -> str:
    """Make a string of the job harmless on a terminal: one line, nothing unprintable."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def format_duration(seconds: float) -> str:
    """Say how long, as people do: "4.2 s", "48 s", "3m10s", "2h05m"."""
    if math.isnan(seconds) or math.isinf(seconds):
        return "ever"
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}h{minutes % 60:02d}m"


def format_clock(unix_ns: int) -> str:
    """A time of day people can search their logs for, in UTC."""
    if unix_ns <= 0:
        return "unknown"
    return datetime.fromtimestamp(unix_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def name_ranks(ranks: Iterable[int]) -> str:
    """ "rank 2", "ranks 0-1,3", "no rank"."""
    several = sorted(set(ranks))
    if not several:
        return "no rank"
    return f"rank{'s' if len(several) > 1 else ''} {format_ranks(several)}"
