"""Whose a file is: the user's, a library's, a named framework's, the standard library's, the probe's.

Enters: a file's name as a dumper gave it, what is known of the job's interpreter (CodeHomes), the named frameworks.
Leaves: an Owner. Frames and stacks: correlate/where.py. What is installed: host/homes.py.
Never here: I/O; this interpreter's own folders, which are not the job's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ddetect.model.tables import values

_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_STDLIB = re.compile(r"/lib(?:64)?/python3(?:\.\d+)?t?/|/python3\d*\.zip/|^<frozen ")
_PROBE = re.compile(r"(?:^|/)ddetect_probe/")
_GENERATED = re.compile(r"(?:^|/)__autograph_generated_file\w*\.py$")  # its lines are nobody's

MOST_FOLDERS = 256
"""Of each kind in one CodeHomes: a job whose nodes all differ does not make a snapshot big."""


class Owner(Enum):
    """Whose a line is. LIBRARY is installed, and nobody has named it: the line to show where none is the user's."""

    USER = "user"
    LIBRARY = "library"
    FRAMEWORK = "framework"
    STDLIB = "stdlib"
    PROBE = "probe"


@dataclass(frozen=True)
class CodeHomes:
    """Where code lives in the job's interpreter, absolute paths without a last slash. Empty: nobody could ask it."""

    stdlib: tuple[str, ...] = values(str)
    site: tuple[str, ...] = values(str)  # purelib, platlib, dist-packages, user site
    # Files and folders of the user's, wherever they lie: those of `__main__`, editable installs.
    user: tuple[str, ...] = values(str)

    def __bool__(self) -> bool:
        return bool(self.stdlib or self.site or self.user)


def join_homes(parts: Iterable[CodeHomes]) -> CodeHomes:
    """What several interpreters, or the nodes of a job, say together."""
    several = list(parts)

    def every(name: str) -> tuple[str, ...]:
        paths = dict.fromkeys(path for part in several for path in getattr(part, name))
        return tuple(paths)[:MOST_FOLDERS]

    return CodeHomes(every("stdlib"), every("site"), every("user"))


def is_probe_file(file: str) -> bool:
    """Ours: the probe's wrappers stand in the stack and mean nothing."""
    return _PROBE.search(file) is not None


def whose(file: str, homes: CodeHomes, frameworks: frozenset[str]) -> Owner:
    """Say whose a file is. What the job's interpreter told goes first, then what paths look like everywhere."""
    if is_probe_file(file):
        return Owner.PROBE
    if _GENERATED.search(file):
        return Owner.FRAMEWORK
    if not file.startswith("/"):
        return _of_a_short_name(file, frameworks)
    mine, site, stdlib = (_inside(file, paths) for paths in (homes.user, homes.site, homes.stdlib))
    rest = file[mine:]
    # A venv may lie inside an editable project: what is installed there is none of the user's.
    if mine > max(site, stdlib) and not _PACKAGE.search(rest) and not _STDLIB.search(rest):
        return Owner.USER
    if site > 0:
        return _installed(file[site + 1 :].partition("/")[0], frameworks)
    if (package := _PACKAGE.search(file)) is not None:
        return _installed(package[1], frameworks)
    return Owner.STDLIB if stdlib > 0 or _STDLIB.search(file) else Owner.USER


def _inside(file: str, paths: tuple[str, ...]) -> int:
    """How long the longest of these paths is that the file is or lies in; 0 if in none."""
    return max((len(path) for path in paths if file == path or file.startswith(path + "/")), default=0)


def _installed(top: str, frameworks: frozenset[str]) -> Owner:
    return Owner.FRAMEWORK if top.removesuffix(".py") in frameworks else Owner.LIBRARY


def _of_a_short_name(file: str, frameworks: frozenset[str]) -> Owner:
    """Dumpers that shorten paths: "threading.py", "torch/autograd/graph.py"; and code without a file."""
    if _STDLIB.search(file):
        return Owner.STDLIB
    if (package := _PACKAGE.search("/" + file)) is not None:
        return _installed(package[1], frameworks)
    first, slash, _ = file.partition("/")
    if first.removesuffix(".py") in sys.stdlib_module_names:
        return Owner.STDLIB
    return Owner.FRAMEWORK if slash and first in frameworks else Owner.USER
