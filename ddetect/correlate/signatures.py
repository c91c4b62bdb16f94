"""The signature file: JSON text enters, `Signatures` leave. Deciding with them is classify.py's work.

The only file access in this package: the default file, once, and the one a user named on the command line.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from ddetect.correlate.kinds import Kind
from ddetect.errors import UsageError

_HINT = 'See ddetect/correlate/signatures.json for the format: {"format": 1, "frameworks": [...], "threads": [...]}.'
_PLACES = ("innermost", "above_user", "anywhere")


@dataclass(frozen=True, slots=True)
class FramePattern:
    """Fits a frame whose function and file both match."""

    function: re.Pattern[str]
    file: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """If a frame at this place of the stack fits, the thread does `kind`."""

    kind: Kind
    at: str
    frame: FramePattern
    under: FramePattern | None = None
    op: str = ""


@dataclass(frozen=True)
class Signatures:
    """What stacks mean, and which packages are not the user's."""

    rules: tuple[Rule, ...]
    frameworks: frozenset[str]


def _pattern(item: object, source: str) -> FramePattern:
    if not isinstance(item, dict):
        raise UsageError(f"{source}: {item!r} is not a frame pattern", _HINT)
    try:
        return FramePattern(re.compile(str(item.get("function", ""))), re.compile(str(item.get("file", ""))))
    except re.error as error:
        raise UsageError(
            f"{source}: {error.pattern!r} is not a regular expression: {error}", _HINT
        ) from error


def parse_signatures(text: str, source: str = "signatures") -> Signatures:
    """Read a signature file's text. Raises UsageError that names the file and the rule."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}", _HINT) from error
    if not isinstance(data, dict) or data.get("format") != 1:
        raise UsageError(f"{source} is not a signature file of format 1", _HINT)
    rules = []
    for number, item in enumerate(data.get("threads", []), 1):
        name = f"{source}, rule {number}"
        pattern = _pattern(item, name)
        if not pattern.function.pattern and not pattern.file.pattern:
            raise UsageError(f"{name} has neither `function` nor `file`: it would fit every stack", _HINT)
        kind = Kind.named(str(item.get("kind", "")))
        if kind is None:
            raise UsageError(f"{name}: {item.get('kind')!r} is not a kind", _HINT)
        at = str(item.get("at", "above_user"))
        if at not in _PLACES:
            raise UsageError(f"{name}: `at` is {at!r}, not one of {', '.join(_PLACES)}", _HINT)
        under = _pattern(item["under"], name) if "under" in item else None
        rules.append(Rule(kind, at, pattern, under, str(item.get("op", ""))))
    return Signatures(tuple(rules), frozenset(str(name) for name in data.get("frameworks", [])))


@lru_cache(maxsize=1)
def default_signatures() -> Signatures:
    """The signatures that ship with ddetect."""
    text = resources.files("ddetect.correlate").joinpath("signatures.json").read_text(encoding="utf-8")
    return parse_signatures(text, "signatures.json")


def read_signatures(extra: str | None = None) -> Signatures:
    """The defaults, with a user's own file in front of them. Raises UsageError when that file is no good."""
    base = default_signatures()
    if not extra:
        return base
    try:
        with open(extra, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the signature file {extra}: {error}", _HINT) from error
    mine = parse_signatures(text, extra)
    return Signatures(mine.rules + base.rules, mine.frameworks | base.frameworks)
