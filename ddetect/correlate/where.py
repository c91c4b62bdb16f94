"""Which line is the user's. A stack enters, a frame leaves. Never here: what the thread does (classify.py).

A company's own package in site-packages is user code; the standard library and the packages that frameworks name are
not, and neither is the probe.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from posixpath import basename

from ddetect.model import Frame, Where

Path = tuple[tuple[str, str], ...]

_PACKAGES = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_STDLIB_FOLDER = re.compile(r"/lib(?:64)?/python3(?:\.\d+)?t?/|/python3\d*\.zip/|^<frozen ")
_IMPORT_ROOT = re.compile(r"^.*/(?:site-packages|dist-packages|lib(?:64)?/python3(?:\.\d+)?t?)/")
_PROBE = re.compile(r"(?:^|/)ddetect_probe/")


def is_probe(frame: Frame) -> bool:
    """Ours: the probe's wrappers stand in the stack and mean nothing."""
    return _PROBE.search(frame.file) is not None


@lru_cache(maxsize=4096)
def _is_user_file(file: str, frameworks: frozenset[str]) -> bool:
    if _PROBE.search(file):
        return False
    package = _PACKAGES.search(file)
    if package is not None:
        return package[1].removesuffix(".py") not in frameworks
    if _STDLIB_FOLDER.search(file):
        return False
    if "/" not in file:  # dumpers that shorten paths: "threading.py"
        return file.removesuffix(".py") not in sys.stdlib_module_names
    if not file.startswith("/"):  # "torch/autograd/graph.py"
        first = file.partition("/")[0]
        return first not in frameworks and first not in sys.stdlib_module_names
    return True


def is_user(frame: Frame, frameworks: frozenset[str]) -> bool:
    """Whether this frame belongs to whoever wrote the training program."""
    return _is_user_file(frame.file, frameworks)


def innermost_user(stack: Iterable[Frame], frameworks: frozenset[str]) -> Frame | None:
    """The first frame, from the inside, that is the user's."""
    return next((frame for frame in stack if is_user(frame, frameworks)), None)


def functions(stack: Iterable[Frame]) -> Path:
    """Functions and files without their lines and the probe's frames: a loop shows another line in each look."""
    return tuple((frame.function, frame.file) for frame in stack if not is_probe(frame))


def where_of(frame: Frame | None) -> Where | None:
    """A frame as a verdict shows it: base name only; the full path goes into the evidence."""
    return None if frame is None else Where(frame.function, basename(frame.file), frame.line)


def format_stack(stack: Sequence[Frame], limit: int = 6) -> str:
    """Write the innermost frames on one line, innermost first, without the probe's; only the user's paths in full."""
    frames = [frame for frame in stack if not is_probe(frame)]
    shown = " <- ".join(f"{f.function} ({_IMPORT_ROOT.sub('', f.file)}:{f.line})" for f in frames[:limit])
    return shown + (" <- ..." if len(frames) > limit else "")
