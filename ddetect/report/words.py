"""Small words that every report uses: durations, clock times, names of members and lines, harmless text.

Enters: numbers and strings, some of them from the job. Leaves: text that is safe on a terminal.
Never here: I/O, colours, whole sentences (deeds.py, sentences.py).
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterable
from datetime import datetime, timezone

from ddetect.model import Names, Where, lane_of, rank_of
from ddetect.rankset import format_members, format_ranks

PLAIN = Names()
LIBRARYS_LINE = "(a library's line)"
"""How a line is marked that is shown for want of one of the user's."""

LIBRARYS_LINE = "(a library's line)"


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


def format_where(where: Where | None) -> str:
    """Write "dataset.py:88 read_shard", or nothing."""
    if where is None:
        return ""
    mark = f" {LIBRARYS_LINE}" if where.library else ""
    return f"{where.file}:{where.line} {where.function}{mark}"


def name_members(members: Iterable[int], names: Names = PLAIN) -> str:
    """Write "rank 2", "ranks 0-1,3", "no rank"; with lanes "replicas 0,2", "replica 1 of ranks 0-3"."""
    several = sorted(set(members))
    if not several:
        return f"no {names.noun}"
    if names.lanes == 1:
        task = dict(names.tasks).get(several[0]) if len(several) == 1 else None
        return _counted(names.words.member, several) + (f" ({clean(task)})" if task else "")
    if names.ranks == 1:
        return _counted(names.words.lane, [lane_of(member) for member in several])
    by_lanes: dict[tuple[int, ...], list[int]] = {}
    for rank, lanes in lanes_by_rank(several).items():
        by_lanes.setdefault(lanes, []).append(rank)
    return " and ".join(
        f"{_counted(names.words.lane, lanes)} of {_counted(names.words.member, ranks)}"
        for lanes, ranks in by_lanes.items()
    )


def list_members(members: Iterable[int], names: Names = PLAIN) -> str:
    """Write only their numbers: "0-1,3"; with lanes "0/1"."""
    if names.lanes > 1 and names.ranks == 1:
        return format_ranks(lane_of(member) for member in members)
    return format_members(members)


def lanes_by_rank(members: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The lanes of each rank that is among them, ranks and lanes in order."""
    found: dict[int, list[int]] = {}
    for rank, lane in sorted((rank_of(member), lane_of(member)) for member in set(members)):
        found.setdefault(rank, []).append(lane)
    return {rank: tuple(lanes) for rank, lanes in found.items()}


def _counted(noun: str, numbers: Iterable[int]) -> str:
    several = sorted(set(numbers))
    return f"{noun}{'s' if len(several) > 1 else ''} {format_ranks(several)}"


def name_signal(number: int) -> str:
    """Write "SIGKILL", or "a signal" where nobody told which."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}" if number else "a signal"


def first_line(exception: str) -> str:
    """The error in one line that fits into a sentence."""
    lines = exception.strip().splitlines() or ["an exception"]
    # A line that ends in a colon only announces what follows.
    line = " ".join(line.strip() for line in lines[:2]) if lines[0].rstrip().endswith(":") else lines[0]
    return line if len(line) <= 120 else line[:117] + "..."
