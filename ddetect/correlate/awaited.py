"""Who does the work that a member waits for? Its own thread, another one, what runs below Python, a loader worker, a
child. A look and a member enter, threads leave: those that it surely waits for, and those that it may wait for.

A rank whose loader worker is stuck polls for ever and says nothing; the worker's thread does. Who waits inside a
collective, for a device, to join or for the GIL waits for nobody here: a spin is no motion.
Never here: how much they do (motion.py), whether anybody waits for the member.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddetect.correlate.classify import classify, classify_thread
from ddetect.correlate.doing import Doing
from ddetect.correlate.telling import waits_for_others
from ddetect.correlate.where import Whose
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import COMMUNICATING, Kind, Posture
from ddetect.model import UNKNOWN, Frame, Role, Sample, Sighting, Thread, lane_of, rank_of

BELOW = UNKNOWN
"""The place of what runs below Python in a process."""
ANY = -2
"""Every thread of a process, whichever it is: of a child nobody knows which one matters."""

TICK_LOST_S = 2.0
"""The probe's thread ticks twice a second; this long without a tick, Python does not run."""

Doer = tuple[int, int]
"""A row of the look's sample, and a thread's place in its sighting."""

_WAITS_FOR_MEMBERS = COMMUNICATING | {Kind.DEVICE_SYNC, Kind.RENDEZVOUS}
_TALKS_TO_CHILDREN = re.compile(
    r"(concurrent/futures/process|loky/process_executor|_async_process_executor|(^|/)subprocess|multiprocess(ing)?/pool)\.py$"
)
"""A thread that talks to child processes (those of an executor or a pool, one of its own)."""
_FOR_WORK = re.compile(r"(^|/)(concurrent/futures/_base\.py:|threading\.py:join$|threading\.py:_shutdown$)")
_IN_POOL = re.compile(r"(^|/)concurrent/futures/thread\.py$")
_BELOW_PYTHON = frozenset({Posture.FUTEX, Posture.POLL, Posture.UNKNOWN})
"""How a thread sits that waits in native code for what other native threads do."""
_OWN_POSTURE = frozenset({Posture.FILE, Posture.DISK, Posture.SOCKET, Posture.TERMINAL})
"""No child will end that."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """Doers of a member. Empty for one that waits for other members, or for nobody."""

    surely: frozenset[Doer] = frozenset()
    maybe: frozenset[Doer] = frozenset()

    def __or__(self, other: Awaited) -> Awaited:
        return Awaited(self.surely | other.surely, self.maybe | other.maybe)


_NOBODY = Awaited()


@dataclass(frozen=True, slots=True)
class Lookout:
    """One look, and how its stacks are read."""

    sample: Sample
    framework: Framework
    whose: Whose

    def awaited(self, member: int) -> Awaited:
        """Whom this member waits for; nobody where its process was not seen."""
        sample, found = self.sample, _NOBODY
        mine = np.flatnonzero(sample.rank == rank_of(member))
        for row in mine[sample.role[mine] == Role.RANK].tolist():
            found |= self._of_rank(row, lane_of(member), mine.tolist())
        return found

    def _of_rank(self, row: int, lane: int, mine: list[int]) -> Awaited:
        sighting = self._sighting(row)
        doing = classify(sighting, self.framework, Role.RANK, lane, self.whose)
        if doing.posture is Posture.FROZEN or doing.kind in _WAITS_FOR_MEMBERS:
            return _NOBODY
        owner = next((i for i, thread in enumerate(sighting.threads) if thread.owns_gil), None)
        if owner is not None and TICK_LOST_S < self.sample.tick_age_s[row] < float("inf"):
            return Awaited(frozenset({(row, owner)}))
        if doing.kind is Kind.DATA_LOADING:
            return self._of_loader(row, doing, mine)
        return self._of_thread(row, sighting, doing, mine)

    def _of_loader(self, row: int, doing: Doing, mine: list[int]) -> Awaited:
        """It waits for a batch: who makes it?"""
        workers = self._rows(mine, Role.LOADER_WORKER)
        sighting = self._sighting(row)
        if not workers:  # a thread of its own, native threads, or a library that maps with a pool
            makers = {
                (row, i)
                for i, thread in enumerate(sighting.threads)
                if thread is not doing.thread and (thread.phase != UNKNOWN or self._is_fetching(thread))
            }
            children = {(child, ANY) for child in self._rows(mine, Role.CHILD)}
            return Awaited(frozenset({(row, BELOW), *makers}), frozenset(children))
        doings = {
            worker: classify(self._sighting(worker), self.framework, Role.LOADER_WORKER, whose=self.whose)
            for worker in workers
        }
        busy = {worker: one for worker, one in doings.items() if one.kind is not Kind.LOADER_IDLE}
        found = _NOBODY
        for worker, one in (busy or doings).items():
            found |= self._of_thread(worker, self._sighting(worker), one, mine)
        hands = {(row, i) for i, thread in enumerate(sighting.threads) if self._is_fetching(thread)}
        return found | Awaited(frozenset(hands))

    def _of_thread(self, row: int, sighting: Sighting, doing: Doing, mine: list[int]) -> Awaited:
        """It minds its own business, or waits for threads and children of its own."""
        surely, maybe = {(row, place_in(sighting, doing.thread))}, set[Doer]()
        locked = doing.kind in (Kind.LOCK, Kind.TEARDOWN) or doing.lock is True
        if locked or doing.waits_on_user_line or waits_for_others(doing):
            workers = set(self._threads_at_work(row, sighting, doing))
            told = _waits_for_work(doing) and len(workers) == 1
            (surely if told else maybe).update(workers)
        of_rank = self.sample.role[row] == Role.RANK
        for child in self._rows(mine, Role.CHILD):
            sure = self._waits_for_children(sighting, doing) and not self.sample.own_session[child]
            if sure:
                surely.add((child, ANY))
            elif of_rank and (_may_wait_for_children(doing, locked=locked) or _talks_to_children(sighting)):
                maybe.add((child, ANY))
        if doing.kind in (Kind.STEP, Kind.BUILDING) or (not locked and doing.posture in _BELOW_PYTHON):
            surely.add((row, BELOW))
        return Awaited(frozenset(surely), frozenset(maybe - surely))

    def _waits_for_children(self, sighting: Sighting, doing: Doing) -> bool:
        """By its own stack, or because it waits for a thread that talks to them."""
        if doing.kind in (Kind.SUBPROCESS, Kind.BUILDING) or doing.posture is Posture.CHILD:
            return True
        own = any(_TALKS_TO_CHILDREN.search(frame.file) for frame in _stack(doing))
        return own or (_waits_for_work(doing) and _talks_to_children(sighting))

    def _threads_at_work(self, row: int, sighting: Sighting, doing: Doing) -> Iterable[Doer]:
        """Other threads at a line to look at; of a pool only those of it, where the thread waits for a future."""
        pooled = any("concurrent/futures/_base.py" in frame.file for frame in _stack(doing)[:4])
        for i, thread in enumerate(sighting.threads):
            if thread is doing.thread or thread.lane != UNKNOWN or self.whose.line(thread.stack) is None:
                continue
            if not pooled or any(_IN_POOL.search(frame.file) for frame in thread.stack):
                yield row, i

    def _is_fetching(self, thread: Thread) -> bool:
        hands_over = any(self.framework.hands_over.search(frame.file) for frame in thread.stack)
        return hands_over or classify_thread(thread, self.framework, whose=self.whose).kind is Kind.FETCH

    def _rows(self, mine: list[int], role: Role) -> list[int]:
        return [row for row in mine if self.sample.role[row] == role]

    def _sighting(self, row: int) -> Sighting:
        return self.sample.sightings[int(self.sample.sighting[row])]


def place_in(sighting: Sighting, thread: Thread | None) -> int:
    """Where a thread stands in its sighting; BELOW for none of it."""
    if thread is None:
        return BELOW
    for i, one in enumerate(sighting.threads):
        if one is thread or (one.name, one.is_main, one.lane, one.stack) == (
            thread.name, thread.is_main, thread.lane, thread.stack,
        ):  # fmt: skip
            return i
    return BELOW


def _waits_for_work(doing: Doing) -> bool:
    return any(_FOR_WORK.search(f"{frame.file}:{frame.function}") for frame in _stack(doing)[:4])


def _may_wait_for_children(doing: Doing, *, locked: bool) -> bool:
    """A poll in a loop has no frame of its own."""
    return not locked and doing.kind is not Kind.FILE_IO and doing.posture not in _OWN_POSTURE


def _talks_to_children(sighting: Sighting) -> bool:
    return any(_TALKS_TO_CHILDREN.search(frame.file) for thread in sighting.threads for frame in thread.stack)


def _stack(doing: Doing) -> tuple[Frame, ...]:
    return doing.thread.stack if doing.thread is not None else ()
