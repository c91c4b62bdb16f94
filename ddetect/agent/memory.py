"""What is remembered of one process between looks: its counters, its sockets, who waited for which.

Enters: what a look has read, with its time. Leaves: a Window of what was done between looks, and sums of it. A look
that is too late finds nothing worth remembering, and is a first one. Never here: /proc, clocks, locks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ddetect.agent.window import Count, Stretch, Sum, Traffic, Window, grown
from ddetect.model import UNKNOWN

NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class Counters:
    """What was read of a process at one instant."""

    at: float
    threads: Mapping[int, Count]
    io_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Wired:
    """What its sockets have moved, by inode, at one instant; and whether we saw all that there are."""

    at: float = NEVER
    moved: Mapping[int, int] = field(default_factory=dict)
    complete: bool = False


_NOTHING = Counters(NEVER, {}, UNKNOWN, 0.0)


@dataclass(slots=True)
class Memory:
    """Of one process. Its values are replaced, never changed."""

    span_s: float
    window: Window = field(init=False)
    last: Counters = _NOTHING
    wired: Wired = field(default_factory=Wired)
    met: Mapping[tuple[int, int], float] = field(
        default_factory=dict
    )  # when a thread was blocked in which inode
    inherited: frozenset[int] = frozenset()  # sockets that are its rank's
    ours: frozenset[int] | None = None  # the probe's threads; None: no dumper has told yet
    woken: Mapping[int, Count] = field(
        default_factory=dict
    )  # by our pause, as they were before, and not asleep again
    looks: int = 0  # that are under way

    def __post_init__(self) -> None:
        self.window = Window(self.span_s)

    def is_over(self, now: float) -> bool:
        """Whether nothing of it is worth remembering."""
        return not self.looks and now - self.last.at > self.span_s

    def forget(self, now: float) -> None:
        """Drop what is too old."""
        self.window.forget(now)
        self.met = {who: at for who, at in self.met.items() if now - at <= self.span_s}
        if now - self.wired.at > self.span_s:
            self.wired = Wired()

    def add(self, counters: Counters) -> None:
        """What was done since the look before, if that was not too long ago."""
        last = self.last
        if not counters.threads or counters.at - last.at > self.span_s:
            return
        growth = {tid: grown(one, last.threads.get(tid)) for tid, one in counters.threads.items()}
        known = min(counters.io_bytes, last.io_bytes) >= 0
        stretch = Stretch(
            last.at,
            counters.at,
            {tid: one for tid, one in growth.items() if one.cpu_ns or one.runs},
            max(0, counters.io_bytes - last.io_bytes) if known else UNKNOWN,
            max(0.0, counters.cpu_s - last.cpu_s),
        )
        self.window.stretches.append(stretch)

    def add_wires(self, wired: Wired, met: Mapping[tuple[int, int], float]) -> None:
        """What its sockets moved since they were read before, and who waits for which now."""
        last = self.wired
        if last.at > NEVER:
            # A socket that is new to us was made since, unless it may have been among those that we did not see.
            unseen = dict.fromkeys(wired.moved, 0) if last.complete else wired.moved
            before = {**unseen, **last.moved}
            growth = {inode: max(0, now - before[inode]) for inode, now in wired.moved.items()}
            self.window.traffic.append(Traffic(last.at, wired.at, growth))
        self.wired, self.met = wired, {**self.met, **met}

    def keep(self, counters: Counters, woken: Mapping[int, Count]) -> None:
        """From here on the process does by itself what it does, but for those who were only `woken`."""
        if counters.threads:
            self.last, self.woken = counters, woken

    def settle(self, counts: Mapping[int, Count], woken: Mapping[int, Count]) -> None:
        """So far our pause has driven these counters; who is still `woken` will be counted again."""
        threads = self.last.threads
        again = {
            tid: one._replace(io_bytes=threads[tid].io_bytes)
            for tid, one in counts.items()
            if tid in threads and one.runs > 0
        }
        self.last, self.woken = replace(self.last, threads={**threads, **again}), woken

    def sums(self) -> tuple[dict[int, Sum], Sum]:
        """What each thread did but for the probe's, and what the process did without those."""
        blocked: defaultdict[int, list[int]] = defaultdict(list)
        for tid, inode in self.met:
            blocked[tid].append(inode)
        moved = {inode for one in self.window.traffic for inode in one.moved}
        mine = moved - self.inherited | {inode for _, inode in self.met}
        every, process, ours = (
            self.window.threads(blocked),
            self.window.process(mine),
            self.ours or frozenset(),
        )
        if process.bytes > 0:  # the probe reads pages now and then
            by_probe = sum(max(0, one.bytes) for tid, one in every.items() if tid in ours)
            process = replace(process, bytes=max(0, process.bytes - by_probe))
        return {tid: one for tid, one in every.items() if tid not in ours}, process
