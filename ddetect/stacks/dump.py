"""Which dumper, in which mode, for a process in a given state.

Enters: a pid, what /proc says about its threads, and how to ask its faulthandler. Leaves: a Dump, always: a
process that cannot be dumped is evidence too, with the reason.
Never here: /proc (the caller has read it), more time than the caller gave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ddetect.frameworks.framework import CallNames
from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.faulthandler import FaultFile, read_faulthandler
from ddetect.stacks.native import NativeReader, with_native
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.pyspy import read_pyspy
from ddetect.stacks.pystack import read_pystack

FROZEN = frozenset("TtDX")
"""States in which a process must not be paused: blocking py-spy fails on T and t, and hangs on D."""

PASSING, FAULTHANDLER = "py-spy --nonblocking", "faulthandler"
"""Names of dumpers: the one that does not pause its target, and the one that makes its target write."""

_PYSPY_S, _NATIVE_S, _PYSTACK_S, _FAULT_S = 1.5, 3.0, 1.5, 0.5
_GENTLE_S = 0.5
"""A pause that is too short to be missed by peers that listen for a heartbeat."""

_Way = tuple[str, Callable[[float], tuple[SeenThread, ...]]]
_Ways = list[_Way]


@dataclass(frozen=True, slots=True)
class Dump:
    """The threads of one process, or the reason why there are none."""

    seen: tuple[SeenThread, ...] = ()
    dumper: str = ""
    unread: str = ""
    denied: bool = False  # the kernel forbids ptrace: `host.ptrace` knows why
    ours: frozenset[int] | None = None  # the kernel's numbers of the probe's own threads; None: not told


def read_stacks(
    pid: int,
    *,
    states: str,
    fault: FaultFile | None = None,
    native: bool = False,
    everything: tuple[NativeReader, object] | None = None,
    gentle: bool = False,
    passing: bool = False,
    calls: Sequence[CallNames] = (),
    timeout_s: float = 2.5,
) -> Dump:
    """Dump one process. `states` are the /proc states of all its threads, the main one first.

    With `native` its C symbols are asked for afterwards, in time of their own: a busy machine may take seconds to find
    them, and the Python stack must not be lost for that; also those of threads without Python, if `everything` has who
    reads them and the identity of the process. A `gentle` dump never pauses it for longer than half a second, and
    never for C symbols: its peers would take it for dead. One that is `passing` never pauses it at all, nor makes it do
    anything. With `calls` the arguments of such a call are read too.
    """
    if passing:
        # Twice: a stack that changes while it is read fails one time in eight.
        return _read_python(pid, states, None, [_passing(pid)] * 2, timeout_s)
    ways = _ways(pid, frozen=bool(FROZEN & set(states)), gentle=gentle, calls=calls)
    dump = _read_python(pid, states, fault, ways, timeout_s)
    if not native or gentle or not dump.seen or FROZEN & set(states):
        return dump
    try:
        if everything is not None:
            reader, identity = everything
            joined = with_native(dump.seen, reader.read(pid, identity))
            return replace(dump, seen=joined, dumper="py-spy, libdw")
        seen = read_pyspy(pid, blocking=True, native=True, calls=calls, timeout_s=_NATIVE_S)
        return _dump(seen, "py-spy --native")
    except DumpFailed:
        return dump


def _read_python(pid: int, states: str, fault: FaultFile | None, ways: _Ways, timeout_s: float) -> Dump:
    if not states:
        return Dump(unread=f"pid {pid} is gone")
    if states[0] == "Z":
        return Dump(unread=f"pid {pid} has ended and waits for its parent to notice (zombie)")
    deadline = time.monotonic() + timeout_s
    reasons: list[str] = []
    denied = False
    for name, read in ways:
        left = deadline - time.monotonic()
        if left <= 0:
            reasons.append("there was no time left to try another way")
            break
        try:
            return _dump(read(left), name)
        except DumpFailed as failed:
            reasons.append(failed.reason)
            if failed.kind in (FailureKind.GONE, FailureKind.NOT_PYTHON):
                return Dump(unread=failed.reason)
            if failed.kind is FailureKind.DENIED:
                denied = True
                break
    if fault is not None and states[0] not in FROZEN:
        try:
            left = min(_FAULT_S, max(0.1, deadline - time.monotonic()))
            return _dump(read_faulthandler(pid, fault, timeout_s=left), FAULTHANDLER)
        except DumpFailed as failed:
            reasons.append(failed.reason)
    return Dump(unread="; ".join(dict.fromkeys(reasons)), denied=denied)


def _dump(seen: tuple[SeenThread, ...], name: str) -> Dump:
    """What a dumper saw, our own threads apart; a dumper that prints no numbers does not tell which those are."""
    ours = frozenset(one.tid for one in seen if one.ours)
    told = any(one.tid for one in seen)
    return Dump(tuple(one for one in seen if not one.ours), name, ours=ours if told else None)


def _ways(pid: int, *, frozen: bool, gentle: bool, calls: Sequence[CallNames]) -> _Ways:
    def spy(left: float) -> tuple[SeenThread, ...]:
        longest = _GENTLE_S if gentle else _PYSPY_S
        return read_pyspy(pid, blocking=True, calls=calls, timeout_s=min(left, longest))

    def stack(left: float) -> tuple[SeenThread, ...]:
        return read_pystack(pid, blocking=not (frozen or gentle), timeout_s=min(left, _PYSTACK_S))

    if frozen:
        return [_passing(pid), ("pystack", stack)]
    return [("py-spy", spy), _passing(pid), ("pystack", stack)]


def _passing(pid: int) -> _Way:
    return PASSING, lambda left: read_pyspy(pid, blocking=False, timeout_s=min(left, _PYSPY_S))
