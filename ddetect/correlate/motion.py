"""Has a culprit moved between the looks? A Snapshot and ranks enter, a Motion leaves; it is false if nothing moved.

CPU time is not motion (waiters spin), but in a compiled step, where it is all that can be seen, it is weak motion.
Another line of the same functions is none: a busy loop has those too.
Loader workers count as their rank does. What its children write and what its other threads do is weak motion: they may
do its work, or be a metrics daemon and a heartbeat that nobody waits for. Never here: who the culprits are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddetect.correlate.classify import classify, classify_thread
from ddetect.correlate.doing import COMPUTES_S, Doing
from ddetect.correlate.where import Path, Whose, functions, whose_of
from ddetect.frameworks import framework_of
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import COMMUNICATING, Kind, Posture
from ddetect.model import Ints, Role, Sample, Sighting, Snapshot, Thread, lane_of, rank_of
from ddetect.model.homes import CodeHomes
from ddetect.rankset import format_members

IO_NOISE_BYTES = 65536
"""Less than this between two looks is logging and our own questions, not a checkpoint."""

STACK_CHANGES = "the stack changes"
BYTES_MOVE = "bytes are read or written"
CHILD_MOVES = "a child process reads or writes"
AWAITED_CHILD_MOVES = "a child process that it waits for reads or writes"
THREAD_MOVES = "another thread of it moves"
LOOP_MOVES = "a thread that trains moves"
STEP_COMPUTES = "its step uses the CPU"
WEAK = frozenset({CHILD_MOVES, THREAD_MOVES, STEP_COMPUTES})
"""Changes beside a rank, of which nobody knows whether the rank waits for them; CPU in a step that hides its work."""

_UNKNOWN_HOMES = CodeHomes()
_TRAINING = COMMUNICATING | {Kind.BACKWARD, Kind.OPTIMIZER}
_LOADING = frozenset({Kind.DATA_LOADING, Kind.FETCH})
_TALKS_TO_CHILDREN = re.compile(
    r"(concurrent/futures/process|loky/process_executor|_async_process_executor|(^|/)subprocess)\.py$"
)
"""A thread that talks to child processes (those of an executor, one of its own) while the main thread waits for it."""


@dataclass(frozen=True, slots=True)
class Motion:
    """What moved, in words; "" is nothing. `certain`: these ranks work. `weak`: something beside them does."""

    certain: str = ""
    weak: str = ""

    def __bool__(self) -> bool:
        return bool(self.certain or self.weak)

    def __str__(self) -> str:
        return "; ".join(part for part in (self.certain, self.weak) if part)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is asked about each stack."""

    framework: Framework
    whose: Whose

    def process(self, sighting: Sighting, role: Role = Role.RANK, lane: int = 0) -> Doing:
        return classify(sighting, self.framework, role, lane, whose=self.whose)

    def is_in_step(self, sighting: Sighting, lane: int) -> bool:
        """Whether Python sees nothing of what it does, and no thread below Python is believed: it computes."""
        doing = classify(sighting, self.framework, Role.RANK, lane, self.whose, starves=False)
        return doing.kind is Kind.STEP

    def thread(self, thread: Thread) -> Doing:
        return classify_thread(thread, self.framework, whose=self.whose)

    def surely_trains(self, doing: Doing) -> bool:
        """Whether the thread that speaks is the job's own loop: told so, the main one, or met at its work."""
        thread = doing.thread
        if thread is None or thread.is_main or thread.lane >= 0 or doing.kind in _TRAINING | _LOADING:
            return thread is not None
        return any(f"/{self.framework.name}/" in frame.file for frame in thread.stack)


def moved(snapshot: Snapshot, members: Iterable[int], framework: Framework | None = None) -> Motion:
    """What moved among these members between the first look and the last: fetches, stacks, bytes."""
    wanted = np.unique(np.fromiter(members, np.int64))
    framework = framework or framework_of(snapshot)
    certain: list[str] = []
    weak: list[str] = []
    homes = snapshot.homes
    for before, after in zip(snapshot.samples, snapshot.samples[1:], strict=False):
        for what, movers in changes(before, after, wanted, framework, homes=homes).items():
            (weak if what in WEAK else certain).append(f"{what} on {_ranks(movers)}")
    return Motion("; ".join(dict.fromkeys(certain)), "; ".join(dict.fromkeys(weak)))


def changes(
    before: Sample,
    after: Sample,
    wanted: Ints,
    framework: Framework,
    *,
    io_noise_bytes: int = IO_NOISE_BYTES,
    homes: CodeHomes = _UNKNOWN_HOMES,
) -> dict[str, set[int]]:
    """Compare two looks, process by process: what changed, and for which members. What is in WEAK proves nothing."""
    known = _Known(framework, whose_of(homes, framework.patterns.packages))
    of_rank: dict[int, set[int]] = {}
    for member in wanted.tolist():
        of_rank.setdefault(rank_of(member), set()).add(member)
    first = {_process(before, i): i for i in np.flatnonzero(np.isin(before.rank, list(of_rank)))}
    found: dict[str, set[int]] = {}
    for now in np.flatnonzero(np.isin(after.rank, list(of_rank))):
        then = first.get(_process(after, now))
        if then is None:
            continue
        members, role = of_rank[int(after.rank[now])], after.role[now]
        old, new = _sighting(before, then), _sighting(after, now)
        if after.fetching[now] != before.fetching[then]:
            found.setdefault("data is being fetched", set()).update(members)
        if role == Role.RANK:
            for member in members:
                if what := _lane_moves(old, new, lane_of(member), known):
                    found.setdefault(what, set()).add(member)
        elif role == Role.LOADER_WORKER and _paths_differ(
            known.process(old, Role.LOADER_WORKER), known.process(new, Role.LOADER_WORKER)
        ):
            found.setdefault(STACK_CHANGES, set()).update(members)
        if role == Role.RANK and after.cpu_s[now] - before.cpu_s[then] > COMPUTES_S:
            computing = {m for m in members if known.is_in_step(new, lane_of(m))}
            if computing:
                found.setdefault(STEP_COMPUTES, set()).update(computing)
        counted = min(after.io_bytes[now], before.io_bytes[then]) >= 0
        if counted and after.io_bytes[now] - before.io_bytes[then] > io_noise_bytes:
            found.setdefault(CHILD_MOVES if role == Role.CHILD else BYTES_MOVE, set()).update(members)
    return found | _said_of_children(after, found.pop(CHILD_MOVES, set()), known)


def _lane_moves(before: Sighting, after: Sighting, lane: int, known: _Known) -> str:
    """What to say of the thread that speaks for a member, or of those beside it; "" if all stand still."""
    old, new = known.process(before, lane=lane), known.process(after, lane=lane)
    if _paths_differ(old, new):
        # Of a thread that only seems to be the loop nobody knows whether anybody waits for it.
        return STACK_CHANGES if known.surely_trains(old) and known.surely_trains(new) else THREAD_MOVES
    return _threads_move(before, after, (old, new), known)


def _paths_differ(old: Doing, new: Doing) -> bool:
    """Other functions than before, lines aside; one that could not be read is no change."""
    stacks = [one.thread.stack if one.thread is not None else () for one in (old, new)]
    return all(stacks) and functions(stacks[0]) != functions(stacks[1])


def _threads_move(before: Sighting, after: Sighting, told: tuple[Doing, Doing], known: _Known) -> str:
    """What to say of its other threads, if the one that speaks waits for a lock or a thread; "" if they stand still."""
    if before.dumper != after.dumper:
        return ""
    doing = told[1]
    speaking = (told[0].thread, doing.thread)
    old, new = _others(before, speaking, known), _others(after, speaking, known)
    moving = (old - new) + (new - old)
    if not moving:
        return ""
    if not (doing.kind in (Kind.LOCK, Kind.TEARDOWN) or doing.waits_on_user_line or doing.lock is True):
        return ""
    kinds = {
        known.thread(thread).kind
        for thread in (*before.threads, *after.threads)
        if thread not in speaking and functions(thread.stack) in moving
    }
    return LOOP_MOVES if kinds & _TRAINING else THREAD_MOVES


def _others(sighting: Sighting, speaking: tuple[Thread | None, ...], known: _Known) -> Counter[Path]:
    """Where the other threads are. Without a line to look at a thread is a framework's own: those run for ever.

    A plain library's thread counts: it may prefetch for the user, and what is weak only puts an alarm off.
    """
    return Counter(
        functions(thread.stack)
        for thread in sighting.threads
        if thread not in speaking and known.whose.line(thread.stack) is not None
    )


def _said_of_children(sample: Sample, ranks: set[int], known: _Known) -> dict[str, set[int]]:
    """What to say of ranks whose children move; one that nobody could read may well wait for its child."""
    if not ranks:
        return {}
    with_workers = set(sample.rank[sample.role == Role.LOADER_WORKER].tolist())
    rank_rows = (sample.role == Role.RANK) & np.isin(sample.rank, [rank_of(one) for one in ranks])
    row_of = {int(sample.rank[row]): row for row in np.flatnonzero(rank_rows)}
    said = dict.fromkeys(ranks, CHILD_MOVES)
    for member in ranks:
        row = row_of.get(rank_of(member))
        if row is not None:
            said[member] = _of_a_child(_sighting(sample, row), rank_of(member) in with_workers, known)
    return {what: {rank for rank in ranks if said[rank] == what} for what in {*said.values()} - {""}}


def _of_a_child(sighting: Sighting, has_workers: bool, known: _Known) -> str:
    """What a moving child means for its rank; "" where the rank certainly waits for something else."""
    doing = known.process(sighting)
    if doing.posture is Posture.FROZEN or doing.kind in COMMUNICATING:
        return ""
    if doing.kind in (Kind.SUBPROCESS, Kind.BUILDING):
        return AWAITED_CHILD_MOVES
    elsewhere = doing.kind is Kind.FILE_IO or doing.posture is Posture.FILE
    # The batch comes from loader workers, if there are any; else a library maps with a pool of its own.
    if doing.kind is Kind.DATA_LOADING:
        elsewhere = has_workers
    elif doing.kind is Kind.LOCK or doing.lock is True:
        frames = (frame for thread in sighting.threads for frame in thread.stack)
        elsewhere = not any(_TALKS_TO_CHILDREN.search(frame.file) for frame in frames)
    return "" if elsewhere else CHILD_MOVES


def _process(sample: Sample, row: np.intp) -> tuple[int, int, int, int]:
    """Which process a row is of: a pid alone repeats across hosts."""
    return int(sample.rank[row]), int(sample.role[row]), int(sample.index[row]), int(sample.pid[row])


def _sighting(sample: Sample, row: int | np.intp) -> Sighting:
    return sample.sightings[int(sample.sighting[row])]


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_members(ranks)}"
