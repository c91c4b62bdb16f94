"""Which line is the user's. A stack enters, a frame leaves. Never here: what the thread does (classify.py).

The user's are files outside site-packages and the standard library, editable installs, and the distribution that holds
`__main__` (ddetect.model.homes decides). Where a stack has none of them, the innermost frame of no named framework is
shown, marked as a library's. One Whose per scene is asked by everybody: what the job's interpreter told reaches all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from posixpath import basename

from ddetect.model import Frame, Where
from ddetect.model.homes import CodeHomes, Owner, is_probe_file, whose

Path = tuple[tuple[str, str], ...]

_IMPORT_ROOT = re.compile(r"^.*/(?:site-packages|dist-packages|lib(?:64)?/python3(?:\.\d+)?t?)/")

_MOST_FILES = 16384
"""Files whose owner is remembered; a job that makes up file names does not fill our memory."""


class Whose:
    """Says whose a frame is; each file is decided once."""

    __slots__ = ("_frameworks", "_homes", "_known")

    def __init__(self, homes: CodeHomes, frameworks: frozenset[str]) -> None:
        self._homes, self._frameworks = homes, frameworks
        self._known: dict[str, Owner] = {}

    def owner(self, frame: Frame) -> Owner:
        """Whose this frame is."""
        known = self._known.get(frame.file)
        if known is None:
            if len(self._known) >= _MOST_FILES:
                self._known.clear()
            known = self._known[frame.file] = whose(frame.file, self._homes, self._frameworks)
        return known

    def line_at(self, stack: Sequence[Frame]) -> int:
        """Where the line to look at stands: the user's innermost, else a plain library's; past the end if none is."""
        library = len(stack)
        for position, frame in enumerate(stack):
            owner = self.owner(frame)
            if owner is Owner.USER:
                return position
            if owner is Owner.LIBRARY and library == len(stack):
                library = position
        return library

    def line(self, stack: Sequence[Frame]) -> Frame | None:
        """The line to look at, from the inside; None in a stack of frameworks and the standard library alone."""
        position = self.line_at(stack)
        return stack[position] if position < len(stack) else None

    def where(self, frame: Frame | None) -> Where | None:
        """A frame as a verdict shows it, marked unless it is the user's."""
        return None if frame is None else where_of(frame, library=self.owner(frame) is not Owner.USER)


@lru_cache(maxsize=8)
def whose_of(homes: CodeHomes, frameworks: frozenset[str]) -> Whose:
    """The same one for the same job: looks are compared often, and a job has few files."""
    return Whose(homes, frameworks)


def is_probe(frame: Frame) -> bool:
    """Ours: the probe's wrappers stand in the stack and mean nothing."""
    return is_probe_file(frame.file)


def functions(stack: Iterable[Frame]) -> Path:
    """Functions and files without their lines and the probe's frames: a loop shows another line in each look."""
    return tuple((frame.function, frame.file) for frame in stack if not is_probe(frame))


def where_of(frame: Frame | None, *, library: bool) -> Where | None:
    """A frame as a verdict shows it: base name only; the full path goes into the evidence."""
    return None if frame is None else Where(frame.function, basename(frame.file), frame.line, library)


def format_stack(stack: Sequence[Frame], limit: int = 6) -> str:
    """Write the innermost frames on one line, innermost first, without the probe's; only the user's paths in full."""
    frames = [frame for frame in stack if not is_probe(frame)]
    shown = " <- ".join(f"{f.function} ({_IMPORT_ROOT.sub('', f.file)}:{f.line})" for f in frames[:limit])
    return shown + (" <- ..." if len(frames) > limit else "")
