"""The moment a process of the job ends, and what ended it, from the kernel (pidfd) and not from our next look.

Enters: members to watch. Leaves: when each died, in the order of dying, and its exit status while it is a zombie that
nobody has waited for yet. Without pidfds (an old kernel) nothing is told and the next look finds them gone.
Never here: signals; a process is only watched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ddetect.agent.members import JobProcess
from ddetect.host.proc import read_exit_status, read_io_bytes, read_stat
from ddetect.model import UNKNOWN

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Death:
    """When a process ended, and its wait status; None when it was waited for before we could read it."""

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
            # Who may not read a process's counters is told that its exit status is 0: believe it only if we may.
            told = read_io_bytes(member.pid) != UNKNOWN
            self._watched[member.key] = handle
            self._add_reader(handle, self._died, member.key, told)

    def close(self) -> None:
        """Stop watching."""
        for key in list(self._watched):
            self._let_go(key)

    def _died(self, key: Key, told: bool) -> None:
        self.seen[key] = Death(time.monotonic_ns(), read_exit_status(*key) if told else None)
        self._let_go(key)
        self._wake()

    def _let_go(self, key: Key) -> None:
        handle = self._watched.pop(key)
        self._remove_reader(handle)
        os.close(handle)
