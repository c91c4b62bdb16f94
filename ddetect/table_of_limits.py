"""The table of limits, as people read it: in `--help`, in the README, in ARCHITECTURE.md. One text for all of them.

Enters: nothing. Leaves: rows of words. Never here: an import (`ddetect launch` shows it, and must run whatever is
broken), numbers that are computed with (correlate/limits.py has those, and a test holds the two together).
"""

from __future__ import annotations

ROWS = (
    ("structural: it contradicts progress by itself", "three looks agree, within 10 s"),
    (
        "somebody waits (or the job has one member), and nothing moves",
        "L = patience, or 3 x the longest healthy gap at this place",
    ),
    ("it polls; nobody can be named; or ranks are unread", "3 L"),
    ("it runs; or several ranks, and nobody waits for another", "10 x patience"),
    ("it works; or the job is ending while any rank works", "never"),
)
NOTES = (
    "What is learned ends at 10 x patience. Before the fifth step L is patience, and who runs gets --startup-patience. "
    "An operation that has a time-out of its own moves the alarm to 30 s before it, at the latest."
)


def as_text() -> str:
    """For a terminal."""
    width = max(len(situation) for situation, _ in ROWS)
    return "\n".join(f"  {situation.ljust(width)}  {after}" for situation, after in ROWS)


def as_markdown() -> str:
    """For a document."""
    rows = "\n".join(f"| {situation} | {after} |" for situation, after in ROWS)
    return f"| situation | alarm after |\n|---|---|\n{rows}\n"
