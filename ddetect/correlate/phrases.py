"""Sentences about ranks. Values enter, text leaves. Never here: deciding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ddetect.correlate.wait import Wait
from ddetect.rankset import format_ranks

MOST_SAID = 2
"""Parts of a sentence: what is left out is counted."""


def ranks_words(ranks: Sequence[int]) -> str:
    """Write "rank 2" or "ranks 0-1,3"."""
    return f"rank{'s' if len(set(ranks)) != 1 else ''} {format_ranks(ranks)}"


def each_of(ranks: Sequence[int], doing: str) -> str:
    """Write "rank 2 sleeps" or "each of ranks 1,3 sleeps"."""
    return (
        f"{ranks_words(ranks)} {doing}" if len(set(ranks)) == 1 else f"each of {ranks_words(ranks)} {doing}"
    )


def each_in_words(named: Iterable[tuple[int, str]]) -> tuple[str, tuple[int, ...]]:
    """Write what ranks do, those that do the same in one part, two parts at most; and the ranks that go unsaid."""
    by_words: dict[str, list[int]] = {}
    for rank, doing in named:
        by_words.setdefault(doing, []).append(rank)
    parts = [each_of(ranks, doing) for doing, ranks in by_words.items()]
    unsaid = tuple(rank for ranks in list(by_words.values())[MOST_SAID:] for rank in ranks)
    return "; ".join(parts[:MOST_SAID]), unsaid


def more_words(ranks: Sequence[int]) -> str:
    """Write "and 2 more ranks (4,6)"; nothing when there are none."""
    count = len(set(ranks))
    return f"and {count} more rank{'s' if count > 1 else ''} ({format_ranks(ranks)})" if count else ""


def waiting_words(waits: Sequence[Wait], *, it: str = "it") -> str:
    """Write "ranks 0-1,3 wait for it in all_reduce #412 of default_pg"; nothing when nobody waits."""
    parts = []
    for wait in waits[:2]:
        verb = "waits" if len(wait.waiters) == 1 else "wait"
        target = f" for {it}" if it else ""
        parts.append(f"{ranks_words(wait.waiters)} {verb}{target} in {wait.label}")
    if len(waits) > 2:
        rest = sorted({rank for wait in waits[2:] for rank in wait.waiters})
        parts.append(f"{ranks_words(rest)} in {len(waits) - 2} more operations")
    return "; ".join(parts)


def wait_lines(wait: Wait) -> list[str]:
    """Evidence about one operation: who is in, who is not."""
    lines = [f"{wait.label}: {ranks_words(wait.waiters)} entered and did not leave"]
    if wait.missing:
        lines[0] += f"; {ranks_words(wait.missing)} {'has' if len(wait.missing) == 1 else 'have'} not entered"
    if wait.presumed:
        lines.append(
            f"{wait.label}: the recorder of {ranks_words(wait.presumed)} was not read; the stack says elsewhere"
        )
    if wait.blind:
        lines.append(f"{wait.label}: nothing is known about {ranks_words(wait.blind)}")
    return lines
