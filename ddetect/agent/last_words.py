"""What a process that ended left behind beside its exception: its last call, the stack of a fatal signal, its stderr.

Enters: ranks while they live, and each that ended with what its page and the kernel told (a Gone). Leaves: that Gone
with more in it, found once. Never here: what it means (ddetect.correlate).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ddetect_probe import page as layout
from ddetect_probe import rundir

from ddetect.agent.members import JobProcess
from ddetect.agent.pages import groups_of
from ddetect.agent.stderr import LastLines, StderrFiles, name_error
from ddetect.correlate.where import whose_of
from ddetect.frameworks import named_packages
from ddetect.model import UNKNOWN, UNSEEN_ERROR, Departure, Frame, Gone, Group, LastCall, Role
from ddetect.model.homes import CodeHomes
from ddetect.stacks.parse import SeenThread, parse_faulthandler

_MOST_BYTES = 1 << 16
_MOST_FRAMES = 40
_FATAL = re.compile(r"^Fatal Python error: ([\w ]+)$", re.MULTILINE)
_CURRENT = re.compile(r"^Current thread 0x([0-9a-fA-F]+)", re.MULTILINE)
_SIGNALS = {
    "Aborted": signal.SIGABRT,
    "Segmentation fault": signal.SIGSEGV,
    "Bus error": signal.SIGBUS,
    "Floating point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}
_INSIDE = (layout.COLLECTIVE, layout.P2P)
_P2P = {layout.SEND: "send", layout.RECV: "recv", layout.RECV_ANY: "recv"}


@dataclass(frozen=True, slots=True)
class FatalStack:
    """What Python wrote down when a signal ended it; `below`: the thread that the signal met runs no Python."""

    signal: int
    frames: tuple[Frame, ...]
    below: bool


class LastWords:
    """`note` while ranks live, `add` when one is gone. From one thread."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._stderr = StderrFiles()
        self._found: dict[tuple[int, int], tuple[LastCall | None, FatalStack | None, LastLines]] = {}

    def note(self, ranks: Iterable[JobProcess]) -> None:
        """Note what can only be found while they live."""
        self._stderr.note(ranks)

    def add(self, gone: Gone, member: JobProcess) -> Gone:
        """The same death, with all that was left behind."""
        if gone.role is not Role.RANK or not gone.is_death:
            return gone
        if member.key not in self._found:
            self._found[member.key] = (
                last_call_of(member.page) if member.page is not None else None,
                read_fatal(rundir.fault_path(self._run_dir, member.pid), _ident(member)),
                self._stderr.last_lines(member.key),
            )
        call, fatal, stderr = self._found[member.key]
        return add_words(replace(gone, last_call=call), fatal, stderr)


def add_words(gone: Gone, fatal: FatalStack | None, stderr: LastLines) -> Gone:
    """A fatal stack counts if it is of the signal that ended the process, or if nobody told how it ended."""
    if gone.how is Departure.VANISHED:
        untold = not gone.signal and gone.code == UNKNOWN
        if fatal is not None and (untold or fatal.signal == gone.signal):
            whose = whose_of(CodeHomes(), named_packages())
            gone = replace(
                gone,
                signal=fatal.signal,
                stack=fatal.frames,
                below=fatal.below,
                where=gone.where or whose.line(fatal.frames),
            )
        if not stderr.own and gone.signal != signal.SIGABRT:
            return gone  # what C++ said in a file of several is of one that aborted
        told = name_error(stderr.lines, python=False) if gone.signal == signal.SIGABRT else ""
        return replace(gone, exception=gone.exception or told, stderr=stderr.lines)
    if not stderr.own:
        return gone
    if gone.exception.startswith(UNSEEN_ERROR):  # no probe was there to see it
        gone = replace(gone, exception=name_error(stderr.lines, python=True) or gone.exception)
    return replace(gone, stderr=stderr.lines)


def last_call_of(page: layout.Page) -> LastCall | None:
    """The newest call with others, as far as the page tells which; None where there was none."""
    lanes = page.lanes()
    if not lanes or not lanes[0].calls + lanes[0].p2p:
        return None
    phase = lanes[0].phase
    groups = groups_of(page)
    if phase == layout.P2P:
        ops = sorted(page.open_ops(), key=lambda op: (op.waiting, op.since_ns))
        if not ops:
            return LastCall(inside=True)
        group = _group(groups, ops[-1].group)
        return LastCall(
            True, _P2P.get(ops[-1].kind, ""), group.backend, group.name, group.label if group.name else ""
        )
    call = page.newest_call()
    if call is None:
        return LastCall(inside=True) if phase in _INSIDE else None
    group = _group(groups, call.group)
    return LastCall(
        phase in _INSIDE, call.op, group.backend, group.name, group.label if group.name else "", call.seq, call.root,
        call.reduce_op, call.elements, len(group.members) or UNKNOWN,
    )  # fmt: skip


def _group(groups: dict[int, tuple[Group, ...]], number: int) -> Group:
    return groups[number][0] if groups.get(number) else Group("", "")


def _ident(member: JobProcess) -> int:
    lanes = member.page.lanes() if member.page is not None else []
    return lanes[0].ident if lanes else 0


def read_fatal(path: str, ident: int) -> FatalStack | None:
    """What a fatal signal made this process write, if it did; `ident` is the thread that trains."""
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _MOST_BYTES))
            return parse_fatal(handle.read(_MOST_BYTES).decode("utf-8", "replace"), ident)
    except OSError:
        return None


def parse_fatal(text: str, ident: int = 0) -> FatalStack | None:
    """Read the last fatal error in the text: the thread that it met, else the one that trains, else the main one."""
    heads = list(_FATAL.finditer(text))
    if not heads or heads[-1][1] not in _SIGNALS:
        return None
    text = text[heads[-1].end() :]
    met = _CURRENT.search(text)
    try:
        threads = tuple(one for one in parse_faulthandler(text) if not one.ours)
    except ValueError:
        threads = ()
    chosen = _thread(threads, [int(met[1], 16)] if met else [ident])
    return FatalStack(_SIGNALS[heads[-1][1]], chosen[:_MOST_FRAMES], met is None)


def _thread(threads: tuple[SeenThread, ...], idents: list[int]) -> tuple[Frame, ...]:
    told = [one.thread.stack for one in threads if one.ident in idents]
    return next(iter(told or [one.thread.stack for one in threads if one.thread.is_main]), ())
