"""Has somebody who is waited for moved between the looks? A Snapshot and members enter, a Motion leaves.

Three grades. *Works*: other functions on the stack, another fetch, or bytes of who does the work (awaited.py), 1 kB/s
over half a minute. *Runs*: a hundredth of a core or more, at the same place. *Polls*: less than that, or other bytes of
the process. What only may be waited for (a metrics daemon, a heartbeat) never works: it runs at most.
Another line of the same functions is no motion: a busy loop has those too. Waiting inside a collective, for a device or
for the GIL is none, however it spins. Never here: who the culprits are, how long a grade puts an alarm off (limits.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ddetect.correlate.awaited import ANY, BELOW, Awaited, Doer, Lookout
from ddetect.correlate.classify import classify, classify_thread
from ddetect.correlate.doing import COMPUTES_S, Doing
from ddetect.correlate.where import Path, Whose, functions, whose_of
from ddetect.frameworks import framework_of
from ddetect.frameworks.framework import Framework
from ddetect.frameworks.kinds import COMMUNICATING, Kind
from ddetect.model import Efforts, Ints, Look, Role, Sample, Sighting, Snapshot, Thread, lane_of, rank_of
from ddetect.model.homes import CodeHomes
from ddetect.rankset import format_members

WORKS_BYTES_PER_S = 1024.0
OVER_S = 30.0
"""So many bytes, counted over this long: a log line now and then is none."""
RUNS_SHARE = 0.01
OTHER_BYTES_PER_S = 10.0
"""Of all the process, whoever moves them."""
IO_NOISE_BYTES = 65536
"""Where nobody metered (older files): less than this between two looks is logging and our own questions."""


class Grade(IntEnum):
    """How much a motion says, the most first."""

    WORKS = 3
    RUNS = 2
    POLLS = 1


STACK_CHANGES = "the stack changes"
FETCHES = "data is being fetched"
BYTES_MOVE = "bytes are read or written"
CHILD_MOVES = "a child process reads or writes"
AWAITED_CHILD_MOVES = "a child process that it waits for reads or writes"
CHILD_RUNS = "a child process runs"
THREAD_MOVES = "another thread of it moves"
THREAD_RUNS = "another thread of it runs"
LOOP_MOVES = "a thread that trains moves"
STEP_COMPUTES = "its step uses the CPU"
RUNS = "it uses the CPU at the same place"
POLLS = "it wakes up now and then"
OTHER_BYTES = "its process moves some bytes"
WEAK = frozenset({CHILD_MOVES, THREAD_MOVES, STEP_COMPUTES})
"""What `changes` finds beside a member, of which nobody knows whether the member waits for it."""

_UNKNOWN_HOMES = CodeHomes()
_TRAINING = COMMUNICATING | {Kind.BACKWARD, Kind.OPTIMIZER}
_LOADING = frozenset({Kind.DATA_LOADING, Kind.FETCH})


@dataclass(frozen=True, slots=True)
class Motion:
    """What moved, in words, by grade; "" is nothing."""

    works: str = ""
    runs: str = ""
    polls: str = ""
    works_age_s: float = 0.0  # since it was last seen to

    def __bool__(self) -> bool:
        """Whether a reader should hear of it."""
        return bool(self.works or self.runs)

    def __str__(self) -> str:
        return "; ".join(part for part in (self.works, self.runs, self.polls) if part)


def moved(snapshot: Snapshot, members: Iterable[int], framework: Framework | None = None) -> Motion:
    """What moved among these members between the first look and the last."""
    wanted = np.unique(np.fromiter(members, np.int64))
    framework = framework or framework_of(snapshot)
    said: dict[Grade, dict[str, set[int]]] = {grade: {} for grade in Grade}
    age_s = math.inf
    for before, after in zip(snapshot.samples, snapshot.samples[1:], strict=False):
        for what, movers in changes(before, after, wanted, framework, homes=snapshot.homes).items():
            grade = Grade.RUNS if what in WEAK else Grade.WORKS
            age_s = age_s if what in WEAK else 0.0
            said[grade].setdefault(what, set()).update(movers)
    for one in efforts_of(snapshot.newest, wanted.tolist(), framework):
        age_s = min(age_s, one.age_s) if one.grade is Grade.WORKS else age_s
        said[one.grade].setdefault(one.what, set()).add(one.member)
    works, runs, polls = (_words(said[grade]) for grade in Grade)
    return Motion(works, runs, polls, age_s if works else 0.0)


def _words(said: dict[str, set[int]]) -> str:
    return "; ".join(f"{what} on {_ranks(movers)}" for what, movers in said.items())


# ---------------------------------------------------------------- what the kernel counted


@dataclass(frozen=True, slots=True)
class Moved:
    """One motion of one member, as the newest look counts it."""

    member: int
    grade: Grade
    what: str
    age_s: float = 0.0


def efforts_of(look: Look, members: Iterable[int], framework: Framework) -> list[Moved]:
    """What those did that these members wait for, and what else their processes moved; nothing where nobody metered."""
    sample = look.sample
    if not len(sample) or np.isnan(sample.metered_s).all():
        return []
    lookout = Lookout(sample, framework, whose_of(look.homes, framework.patterns.packages))
    effort = _by_process(sample, look.efforts)
    found: list[Moved] = []
    for member in members:
        awaited = lookout.awaited(member)
        for doers, surely in ((awaited.surely, True), (awaited.maybe, False)):
            for doer, at in _efforts_by(doers, effort):
                found += _graded(member, doer, at, sample, look.efforts, surely=surely)
        if (awaited.surely or awaited.maybe) and _other_bytes(sample, member):
            found.append(Moved(member, Grade.POLLS, OTHER_BYTES))
    return found


def _by_process(sample: Sample, efforts: Efforts) -> dict[int, dict[int, int]]:
    """Of each row of the sample the threads that did anything, by place, and their rows."""
    row_of = {key: row for row, key in enumerate(zip(sample.rank.tolist(), sample.pid.tolist(), strict=True))}
    keys = zip(efforts.rank.tolist(), efforts.pid.tolist(), efforts.thread.tolist(), strict=True)
    found: dict[int, dict[int, int]] = {}
    for at, (rank, pid, thread) in enumerate(keys):
        if (rank, pid) in row_of:
            found.setdefault(row_of[rank, pid], {})[thread] = at
    return found


def _efforts_by(doers: Iterable[Doer], effort: dict[int, dict[int, int]]) -> Iterator[tuple[Doer, int]]:
    """Those of these doers that did anything, with the row of it."""
    for row, place in doers:
        for thread, at in effort.get(row, {}).items():
            if place in (thread, ANY):
                yield (row, place), at


def _graded(
    member: int, doer: Doer, at: int, sample: Sample, efforts: Efforts, *, surely: bool
) -> list[Moved]:
    row, place = doer
    child = sample.role[row] == Role.CHILD
    over_s = min(max(float(sample.metered_s[row]), 1.0), OVER_S)
    if efforts.bytes[at] >= WORKS_BYTES_PER_S * over_s:
        what = BYTES_MOVE if surely else THREAD_MOVES
        if child:
            what = AWAITED_CHILD_MOVES if surely else CHILD_MOVES
        return [Moved(member, Grade.WORKS if surely else Grade.RUNS, what, float(efforts.bytes_age_s[at]))]
    if efforts.busy[at] >= RUNS_SHARE:
        return [Moved(member, Grade.RUNS, CHILD_RUNS if child else RUNS if surely else THREAD_RUNS)]
    # Below Python somebody always wakes up: timers, pools. And once it may have been our own pause that woke it.
    wakes = efforts.runs[at] > 1 or efforts.bytes[at] > 0
    return [Moved(member, Grade.POLLS, POLLS)] if wakes and place != BELOW else []


def _other_bytes(sample: Sample, member: int) -> bool:
    rows = sample.rank == rank_of(member)
    counted = rows & (sample.moved_bytes > 0) & ~np.isnan(sample.metered_s)
    over_s = np.maximum(sample.metered_s[counted], 1.0)
    return bool((sample.moved_bytes[counted] / over_s >= OTHER_BYTES_PER_S).any())


# ---------------------------------------------------------------- what differs between two looks


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


def changes(
    before: Sample,
    after: Sample,
    wanted: Ints,
    framework: Framework,
    *,
    io_noise_bytes: int | None = None,
    homes: CodeHomes = _UNKNOWN_HOMES,
) -> dict[str, set[int]]:
    """Compare two looks, process by process: what changed, and for which members. What is in WEAK proves nothing.

    Bytes count as a change where nobody metered them, or from `io_noise_bytes` on where that is given.
    """
    known = _Known(framework, whose_of(homes, framework.patterns.packages))
    lookout, awaited = Lookout(after, framework, known.whose), dict[int, Awaited]()
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
            found.setdefault(FETCHES, set()).update(members)
        metered = not math.isnan(after.metered_s[now])
        if role == Role.RANK:
            for member in members:
                if what := _lane_moves(old, new, lane_of(member), known, metered=metered):
                    found.setdefault(what, set()).add(member)
        elif role == Role.LOADER_WORKER and _paths_differ(
            known.process(old, Role.LOADER_WORKER), known.process(new, Role.LOADER_WORKER)
        ):
            found.setdefault(STACK_CHANGES, set()).update(members)
        if not metered and role == Role.RANK and after.cpu_s[now] - before.cpu_s[then] > COMPUTES_S:
            computing = {m for m in members if known.is_in_step(new, lane_of(m))}
            if computing:
                found.setdefault(STEP_COMPUTES, set()).update(computing)
        noise = IO_NOISE_BYTES if io_noise_bytes is None else io_noise_bytes
        counted = min(after.io_bytes[now], before.io_bytes[then]) >= 0
        counted = counted and (not metered or io_noise_bytes is not None)
        if counted and after.io_bytes[now] - before.io_bytes[then] > noise:
            for member in members:
                what = BYTES_MOVE
                if role == Role.CHILD:
                    known_to = awaited.get(member) or awaited.setdefault(member, lookout.awaited(member))
                    what = _of_child(known_to, int(now))
                if what:
                    found.setdefault(what, set()).add(member)
    return found


def _of_child(awaited: Awaited, row: int) -> str:
    """What a moving child means for its rank; "" where the rank certainly waits for something else."""
    if (row, ANY) in awaited.surely:
        return AWAITED_CHILD_MOVES
    return CHILD_MOVES if (row, ANY) in awaited.maybe else ""


def _lane_moves(before: Sighting, after: Sighting, lane: int, known: _Known, *, metered: bool) -> str:
    """What to say of the thread that speaks for a member, or of those beside it; "" if all stand still."""
    old, new = known.process(before, lane=lane), known.process(after, lane=lane)
    if _paths_differ(old, new):
        # Of a thread that only seems to be the loop nobody knows whether anybody waits for it.
        sure = known.surely_trains(old) and known.surely_trains(new)
        return STACK_CHANGES if sure else "" if metered else THREAD_MOVES
    return _threads_move(before, after, (old, new), known, metered=metered)


def _paths_differ(old: Doing, new: Doing) -> bool:
    """Other functions than before, lines aside; one that could not be read is no change."""
    stacks = [one.thread.stack if one.thread is not None else () for one in (old, new)]
    return all(stacks) and functions(stacks[0]) != functions(stacks[1])


def _threads_move(
    before: Sighting, after: Sighting, told: tuple[Doing, Doing], known: _Known, *, metered: bool
) -> str:
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
    if kinds & _TRAINING:
        return LOOP_MOVES
    return "" if metered else THREAD_MOVES


def _others(sighting: Sighting, speaking: tuple[Thread | None, ...], known: _Known) -> Counter[Path]:
    """Where the other threads are. Without a line to look at a thread is a framework's own: those run for ever.

    A plain library's thread counts: it may prefetch for the user, and what is weak only puts an alarm off.
    """
    return Counter(
        functions(thread.stack)
        for thread in sighting.threads
        if thread not in speaking and known.whose.line(thread.stack) is not None
    )


def _process(sample: Sample, row: np.intp) -> tuple[int, int, int, int]:
    """Which process a row is of: a pid alone repeats across hosts."""
    return int(sample.rank[row]), int(sample.role[row]), int(sample.index[row]), int(sample.pid[row])


def _sighting(sample: Sample, row: int | np.intp) -> Sighting:
    return sample.sightings[int(sample.sighting[row])]


def _ranks(ranks: set[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {format_members(ranks)}"
