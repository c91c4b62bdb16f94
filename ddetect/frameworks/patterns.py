"""Stack patterns ("signatures"): JSON text enters, `Patterns` leave. Deciding with them is ddetect.correlate's work.

A file of the same format may come from a user (--signatures). Never here: an answer about any one stack.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from ddetect.errors import UsageError
from ddetect.frameworks.kinds import Kind

HINT = 'See ddetect/frameworks/general.json for the format: {"format": 1, "frameworks": [...], "threads": [...]}.'
_PLACES = ("innermost", "above_user", "anywhere", "outermost")
_TURNS = ("first", "usual", "late")


@dataclass(frozen=True, slots=True)
class FramePattern:
    """Fits a frame whose function and file both match."""

    function: re.Pattern[str]
    file: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class StackPattern:
    """If a frame at this place of the stack fits, the thread does `kind`."""

    kind: Kind
    at: str
    frame: FramePattern
    under: FramePattern | None = None
    op: str = ""
    turn: int = 1  # among the patterns of several files: first, usual, late


@dataclass(frozen=True)
class Patterns:
    """What stacks mean, in the order in which they are tried, and which packages are not the user's."""

    stacks: tuple[StackPattern, ...] = ()
    packages: frozenset[str] = frozenset()

    def before(self, others: Patterns) -> Patterns:
        """All of these, then all of the others."""
        return Patterns(self.stacks + others.stacks, self.packages | others.packages)

    def among(self, others: Patterns) -> Patterns:
        """Turn by turn: in each, these before the others."""
        stacks = sorted(self.stacks + others.stacks, key=lambda pattern: pattern.turn)
        return Patterns(tuple(stacks), self.packages | others.packages)


NOTHING = Patterns()


def _frame_pattern(item: object, source: str) -> FramePattern:
    if not isinstance(item, dict):
        raise UsageError(f"{source}: {item!r} is not a frame pattern", HINT)
    try:
        return FramePattern(re.compile(str(item.get("function", ""))), re.compile(str(item.get("file", ""))))
    except re.error as error:
        raise UsageError(f"{source}: {error.pattern!r} is not a regular expression: {error}", HINT) from error


@lru_cache(maxsize=16)  # a user's own come with every snapshot
def parse_patterns(text: str, source: str = "signatures") -> Patterns:
    """Read the text of a pattern file. Raises UsageError that names the file and the rule."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}", HINT) from error
    if not isinstance(data, dict) or data.get("format") != 1:
        raise UsageError(f"{source} is not a signature file of format 1", HINT)
    stacks = [
        _stack_pattern(item, f"{source}, rule {number}")
        for number, item in enumerate(data.get("threads", []), 1)
    ]
    return Patterns(tuple(stacks), frozenset(str(name) for name in data.get("frameworks", [])))


def _stack_pattern(item: dict[str, object], name: str) -> StackPattern:
    frame = _frame_pattern(item, name)
    if not frame.function.pattern and not frame.file.pattern:
        raise UsageError(f"{name} has neither `function` nor `file`: it would fit every stack", HINT)
    kind = Kind.named(str(item.get("kind", "")))
    if kind is None:
        raise UsageError(f"{name}: {item.get('kind')!r} is not a kind", HINT)
    at, turn = str(item.get("at", "above_user")), str(item.get("turn", "usual"))
    for given, known in (("at", _PLACES), ("turn", _TURNS)):
        value = at if given == "at" else turn
        if value not in known:
            raise UsageError(f"{name}: `{given}` is {value!r}, not one of {', '.join(known)}", HINT)
    under = _frame_pattern(item["under"], name) if "under" in item else None
    return StackPattern(kind, at, frame, under, str(item.get("op", "")), _TURNS.index(turn))
