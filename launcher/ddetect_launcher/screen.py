"""What the launcher writes to stderr: sentences, alarms, and the status line when a person is watching.

Enters: files the coordinator leaves in the run directory (status.txt, alarm-NNN.txt, summary.txt). Leaves: bytes on
stderr, never on stdout; none at all when stderr is no terminal and there is nothing to report.
Never blocks: a full pipe keeps its bytes for the next look, because the descriptor is the job's too and must not be
made non-blocking.
"""

from __future__ import annotations

import os
import select
import time

from ddetect_probe import rundir

_CLEAR = b"\r\x1b[K"
_PIPE_ROOM = 4096  # what a pipe that polls writable takes without blocking
_REPAINT_S = 1.0


class Screen:
    """The launcher's stderr."""

    def __init__(self, *, quiet: bool, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._paints = not quiet and _is_terminal(descriptor)
        self._painted = ""
        self._next_paint = 0.0
        self._pending = b""
        self._seen: set[str] = set()

    def say(self, sentence: str) -> None:
        """One sentence to the user."""
        self._write(f"ddetect: {sentence}\n".encode("utf-8", "replace"))

    def look(self, folder: str, now: float) -> None:
        """Print new alarms and repaint the status line when it changed."""
        self.print_alarms(folder)
        if self._paints and now >= self._next_paint:
            self._next_paint = now + _REPAINT_S
            self._paint(_read(os.path.join(folder, rundir.STATUS)).strip())
        self._flush()

    def print_alarms(self, folder: str) -> None:
        """Print each alarm once, in order, by whichever launcher of this node comes first."""
        try:
            names = sorted(
                name for name in os.listdir(folder) if rundir.ALARM.fullmatch(name) and name not in self._seen
            )
        except OSError:
            return
        for name in names:
            self._seen.add(name)
            if _claim(os.path.join(folder, f"{name}.printed")):
                text = _read(os.path.join(folder, name)).rstrip("\n")
                self._write(f"{text}\n".encode("utf-8", "replace"))

    def print_summary(self, folder: str) -> None:
        """Name the incident folder, if there was one."""
        text = _read(os.path.join(folder, rundir.SUMMARY)).rstrip("\n")
        if text:
            self._write(f"{text}\n".encode("utf-8", "replace"))

    def clear(self) -> None:
        """Take the status line away."""
        if self._painted:
            self._painted = ""
            if _in_foreground(self._descriptor):
                self._pending += _CLEAR
                self._flush()

    def close(self, patience_s: float = 1.0) -> None:
        """Take the status line away and give a slow reader a last chance."""
        self.clear()
        deadline = time.monotonic() + patience_s
        while self._pending and time.monotonic() < deadline:
            select.select([], [self._descriptor], [], 0.05)
            self._flush()

    def _paint(self, line: str) -> None:
        if not _in_foreground(self._descriptor):
            return
        line = line.splitlines()[0][: max(1, _columns(self._descriptor) - 1)] if line else ""
        if line != self._painted and not self._pending:
            # The cursor goes back to the first column, so that the job's next line starts there.
            self._write(_CLEAR + line.encode("utf-8", "replace") + b"\r", over_status=False)
            self._painted = line

    def _write(self, raw: bytes, *, over_status: bool = True) -> None:
        if over_status:
            self.clear()
        self._pending += raw
        self._flush()

    def _flush(self) -> None:
        poll = select.poll()
        try:
            poll.register(self._descriptor, select.POLLOUT)
            while self._pending and (events := poll.poll(0)):
                if not events[0][1] & select.POLLOUT:
                    raise BrokenPipeError
                self._pending = self._pending[os.write(self._descriptor, self._pending[:_PIPE_ROOM]) :]
        except OSError:
            self._pending = b""  # closed, or its reader is gone: nobody is there to tell


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def _claim(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return True
    except FileExistsError:
        return False
    except OSError:
        return True  # a full disk is no reason to swallow an alarm


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor) and os.environ.get("TERM", "dumb") != "dumb"
    except OSError:
        return False


def _in_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal: nobody else's foreground either


def _columns(descriptor: int) -> int:
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80
