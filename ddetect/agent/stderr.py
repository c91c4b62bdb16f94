"""The last lines of a rank's stderr, where that already is a regular file (torchrun --redirects, srun -o).

Enters: ranks that live; where their stderr goes is noted once, without touching that file system. Leaves: the last
lines of one that has ended. A file that several ranks write to tells of none of them alone: of that, only what C++
says when it aborts. Never here: tee, dup or pipe; waiting for a file system that hangs; another file than the noted.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from ddetect.agent.members import JobProcess
from ddetect.model import Role
from ddetect.report.words import clean

MOST_BYTES = 4096
MOST_LINES = 12
_MOST_CHARACTERS = 300
_WITHIN_S = 0.5
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TERMINATE = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"^\s*what\(\):\s*(.*)")
_LIBC = re.compile(
    r"^(?:free|malloc|realloc|calloc|munmap_chunk)\(\): \w.*|^double free or corruption.*|^corrupted \w.*"
    r"|^\*\*\* [^*]+ \*\*\*.*|^\S+: .*: Assertion `.*' failed\."
)
"""What libc says before it aborts a process itself."""
_PYTHON = re.compile(r"^(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$")

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StderrFile:
    """Where a process's stderr went; `inode` 0 where the kernel did not tell."""

    path: str
    inode: int = 0


@dataclass(frozen=True, slots=True)
class LastLines:
    """What was written last; `own`: by this process and its children, and no other rank."""

    lines: tuple[str, ...] = ()
    own: bool = False


class StderrFiles:
    """Notes files while ranks live, reads them when they are gone. From one thread."""

    def __init__(self) -> None:
        self._noted: dict[Key, StderrFile | None] = {}  # None: no regular file
        self._reader: threading.Thread | None = None

    def note(self, ranks: Iterable[JobProcess]) -> None:
        """Note where each goes that was not asked yet."""
        for member in ranks:
            if member.key not in self._noted and not member.gone and member.role is Role.RANK:
                self._noted[member.key] = find_stderr(member.pid)

    def last_lines(self, key: Key) -> LastLines:
        """The last lines of a process that has ended; nothing where its stderr was no file, or cannot be read now."""
        file = self._noted.get(key)
        if file is None:
            return LastLines()
        own = all(other != file for its, other in self._noted.items() if its != key)
        text = self._read(file)
        lines = tidy(text, whole=len(text) < MOST_BYTES)
        return LastLines(lines if own else what_aborted(lines), own)

    def _read(self, file: StderrFile) -> bytes:
        """Read in a thread: a file server that hangs must not take the agent with it."""
        if self._reader is not None and self._reader.is_alive():
            return b""
        found: list[bytes] = []
        self._reader = threading.Thread(target=lambda: found.append(read_end(file)), daemon=True)
        self._reader.start()
        self._reader.join(_WITHIN_S)
        return found[0] if found else b""


def find_stderr(pid: int) -> StderrFile | None:
    """The file that is a process's stderr, by its name in /proc alone; None for a terminal, a pipe or a device."""
    try:
        path = os.readlink(f"/proc/{pid}/fd/2")
        with open(f"/proc/{pid}/fdinfo/2", encoding="ascii", errors="replace") as info:
            told = re.search(r"^ino:\s*(\d+)", info.read(), re.MULTILINE)
    except OSError:
        return None
    if (
        not path.startswith("/")
        or path.startswith(("/dev/", "/proc/", "/sys/"))
        or path.endswith(" (deleted)")
    ):
        return None
    return StderrFile(path, int(told[1]) if told else 0)


def read_end(file: StderrFile) -> bytes:
    """The end of a regular file; nothing if it is another one by now."""
    try:
        handle = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or file.inode not in (0, found.st_ino):
            return b""
        return os.pread(handle, MOST_BYTES, max(0, found.st_size - MOST_BYTES))
    except OSError:
        return b""
    finally:
        os.close(handle)


def tidy(text: bytes, *, whole: bool = True) -> tuple[str, ...]:
    """The last lines, harmless and short. Unless it is the whole text, its first line is only a piece of one."""
    lines = _COLOURS.sub("", text.decode("utf-8", "replace")).splitlines()
    lines = lines if whole else lines[1:]
    told = [clean(line)[:_MOST_CHARACTERS] for line in lines if line.strip()]
    return tuple(told[-MOST_LINES:])


def what_aborted(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Only what C++ says of an exception that nobody caught."""
    return tuple(line for line in lines if _TERMINATE.search(line) or _WHAT.match(line))


def name_error(lines: tuple[str, ...], *, python: bool) -> str:
    """The error that these lines end with: of C++, of libc, or of Python where that is asked for; "" if none."""
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at]
        if thrown := _TERMINATE.search(line):
            said = next((what[1] for after in lines[at + 1 :] if (what := _WHAT.match(after))), "")
            return f"{thrown[1]}: {said}" if said else thrown[1]
        if libc := _LIBC.match(line):
            return libc[0]
        if python and (raised := _PYTHON.match(line)):
            return raised[1]
    return ""
