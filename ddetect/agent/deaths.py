"""The moment a process of the job ends, and what ended it, from the kernel (pidfd) and not from our next look.

Enters: members to watch. Leaves: when each died, in the order of dying, and its exit status: from the zombie while
nobody has waited for it, from the pidfd once somebody has, if this kernel can. Without pidfds nothing is told and the
next look finds them gone.
Never here: signals; a process is only watched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ddetect.agent.members import JobProcess
from ddetect.host.pidfd import read_reaped_status
from ddetect.host.proc import read_exit_status, read_io_bytes, read_stat
from ddetect.model import UNKNOWN

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Death:
    """When a process ended, and its wait status; None when nobody would tell it."""

    at_ns: int
    status: int | None


class Deaths:
    """Watches through an event loop's `add_reader` and `remove_reader`; `wake` is called at every death."""

    def __init__(
        self,
        add_reader: Callable[..., object],
        remove_reader: Callable[[int], object],
        wake: Callable[[], None],
    ) -> None:
        self._add_reader, self._remove_reader, self._wake = add_reader, remove_reader, wake
        self._watched: dict[Key, int] = {}
        self.seen: dict[Key, Death] = {}

    def watch(self, members: Iterable[JobProcess]) -> None:
        """Watch those that live and are not watched yet."""
        for member in members:
            if member.gone or member.key in self._watched or member.key in self.seen:
                continue
            try:
                handle = os.pidfd_open(member.pid)
            except OSError:
                continue  # gone already, no pidfds here, or no more handles
            stat = read_stat(member.pid)
            if stat is None or stat.start_ticks != member.start_ticks:
                os.close(handle)
                continue
            self._watched[member.key] = handle
            self._add_reader(handle, self._died, member.key, handle, _may_read(member.pid))

    def close(self) -> None:
        """Stop watching."""
        for key in list(self._watched):
            self._let_go(key)

    def _died(self, key: Key, handle: int, may_read: bool) -> None:
        at_ns = time.monotonic_ns()
        # In this order: a zombie that is waited for in between is found by the second.
        status = read_exit_status(*key) if may_read else None
        self.seen[key] = Death(at_ns, read_reaped_status(handle) if status is None else status)
        self._let_go(key)
        self._wake()

    def _let_go(self, key: Key) -> None:
        handle = self._watched.pop(key)
        self._remove_reader(handle)
        os.close(handle)


def read_last_status(member: JobProcess) -> int | None:
    """The wait status of a process that died before it could be watched; None unless nobody has waited for it yet."""
    return read_exit_status(*member.key) if _may_read(member.pid) else None


def _may_read(pid: int) -> bool:
    """Who may not read a process's counters is told that its exit status is 0."""
    return read_io_bytes(pid) != UNKNOWN
