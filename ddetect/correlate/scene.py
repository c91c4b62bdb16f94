"""Arrange a Snapshot so that rules can ask by member. A Snapshot enters, a Scene leaves.

A member is a rank, or one of the lanes that share its process; it is one number (ddetect.model.tables). Per member
there are columns; stacks are classified once per class of equal sightings, never once per rank.
Never here: who waits for whom (waits.py), who is at fault (rules/).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ddetect.correlate.classify import classify
from ddetect.correlate.collectives import Standing, distinct, standings
from ddetect.correlate.doing import COMPUTES_S, UNREAD, Doing
from ddetect.correlate.where import Path, functions, whose_of
from ddetect.frameworks import FRAMEWORKS, Registry, framework_of
from ddetect.frameworks.kinds import COMMUNICATING, OWN_BUSINESS, Kind, Posture
from ddetect.model import (
    UNKNOWN,
    Floats,
    Gone,
    Ints,
    Names,
    Phase,
    Role,
    Sample,
    Sighting,
    Snapshot,
    rank_of,
    ranks_of,
)
from ddetect.model.tables import LANE_BITS

ELSEWHERE = (Phase.STARTING, Phase.DATA, Phase.LEAVING, Phase.EXITING)
_OF_ITS_OWN = (
    Posture.ASLEEP, Posture.FILE, Posture.TERMINAL, Posture.DISK, Posture.SOCKET, Posture.PIPE, Posture.CHILD,
)  # fmt: skip
"""No device makes a thread sit like this."""

Bools = npt.NDArray[np.bool_]
NO_SIGHTING = Sighting(state="", unread="no look at it was taken")


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """One process of a rank in the newest look, with its /proc state in every look."""

    rank: int
    role: Role
    index: int
    pid: int
    sighting: Sighting
    doing: Doing
    states: str
    fetching: int = UNKNOWN
    fetch_age_s: float = math.inf
    tick_age_s: float = math.inf
    gpu_busy: float = math.nan

    @property
    def frozen(self) -> bool:
        """Stopped (or held by a debugger) in every look."""
        return bool(self.states) and set(self.states) <= set("Tt")

    @property
    def in_disk_wait(self) -> bool:
        """Uninterruptible in every look: one look alone can meet a healthy process there."""
        return bool(self.states) and set(self.states) == {"D"}


class Scene:
    """A snapshot as rules see it. Members are numbers; columns are dense and follow `members`."""

    def __init__(self, snapshot: Snapshot, frameworks: Registry = FRAMEWORKS) -> None:
        self.snapshot = snapshot
        self.framework = framework_of(snapshot, frameworks)
        self.whose = whose_of(snapshot.homes, self.framework.patterns.packages)
        self._doings: dict[tuple[int, Role, int], tuple[Sighting, Doing]] = {}
        roster, beats = snapshot.roster, snapshot.beats
        parts = [roster.member, snapshot.comms.progress.member, snapshot.comms.p2p.member]
        parts += [np.array([gone.rank for gone in snapshot.gone if gone.role is Role.RANK], np.int64)]
        parts += [sample.rank for sample in snapshot.samples]  # processes: the first lane stands for them
        if snapshot.world_size > 0:
            parts.append(np.arange(snapshot.world_size))
        self.members: Ints = distinct(np.concatenate(parts))
        self.rank: Ints = ranks_of(self.members)  # of each member
        self.lane: Ints = self.members >> LANE_BITS
        count = len(self.members)
        self.in_roster: Bools = np.zeros(count, bool)
        self._roster_row: Ints = np.full(count, UNKNOWN)
        told = np.flatnonzero(roster.member >= 0)[::-1]  # of two rows for a member the first one
        self._roster_row[self.positions(roster.member[told])] = told
        self.in_roster = self._roster_row >= 0
        known = self.in_roster & (len(beats) == len(roster))
        self.phase: Ints = np.full(count, UNKNOWN)
        if known.any():
            rows = np.maximum(self._roster_row, 0)
            self.phase = np.where(known & (beats.has_page[rows] > 0), beats.phase[rows], UNKNOWN)
        self.activity_age_s: Floats = self._floats(known, beats.activity_age_s, math.nan)
        self.phase_age_s: Floats = self._floats(known, beats.phase_age_s, math.nan)
        self._beat_tick: Floats = self._floats(known, beats.tick_age_s, math.inf)
        # As many batches as steps: whoever trains takes a batch in Python, and hands it to the step.
        batches, steps = (
            self._floats(known, column.astype(float), 0.0) for column in (beats.batch, beats.step)
        )
        self.fed_by_hand: Bools = (batches > 0) & (batches >= steps)
        self._row, self._looks = self._rank_rows()
        self.kind, self.posture, self.asks_lock = self._postures()
        self.gone_ranks: dict[int, Gone] = {}  # whoever has lost its process, by member
        for gone in sorted(snapshot.gone, key=lambda one: one.age_s):
            if gone.role is Role.RANK:
                for member in self.members_of(gone.rank):
                    self.gone_ranks.setdefault(member, gone)
        self.departed: list[Gone] = list(dict.fromkeys(self.gone_ranks.values()))  # each process once
        self.gone: Bools = np.isin(self.members, np.fromiter(self.gone_ranks, np.int64, len(self.gone_ranks)))
        unread = [rank for item in snapshot.unread for rank in item.ranks]
        self.said_unread: Bools = np.isin(self.rank, np.array(unread, np.int64))

    # ------------------------------------------------------------ building

    def _floats(self, known: Bools, column: Floats, default: float) -> Floats:
        rows = np.maximum(self._roster_row, 0)
        return np.where(known, column[rows], default) if known.any() else np.full(len(known), default)

    def _rank_rows(self) -> tuple[Ints, tuple[Ints, ...]]:
        """Where each member's own process stands in the newest sample, and in every sample.

        Of two processes of a rank the one in the roster is its own: after an elastic restart both may be seen.
        """
        known = np.full(len(self.members), UNKNOWN)
        known[self.in_roster] = self.snapshot.roster.pid[self._roster_row[self.in_roster]]
        looks = []
        for sample in self.snapshot.samples:
            rows = np.full(len(self.members), UNKNOWN)
            mine = np.flatnonzero((sample.role == Role.RANK) & (sample.rank >= 0))
            at = self.positions(sample.rank[mine])  # the first lane of each
            own = sample.pid[mine] == known[at]
            rows[at[~own]] = mine[~own]
            rows[at[own]] = mine[own]
            looks.append(rows if not self.lane.any() else rows[self.positions(self.rank)])
        return (looks[-1] if looks else np.full(len(self.members), UNKNOWN)), tuple(looks)

    def _postures(self) -> tuple[Ints, Ints, Bools]:
        """Kind and posture per rank: classified once per distinct sighting of the newest readable look."""
        kind = np.zeros(len(self.members), np.int64)
        posture = np.zeros(len(self.members), np.int64)
        asks = np.zeros(len(self.members), bool)
        # Busy at the user's line: `.item()`, or not.
        self.asks_device: Bools = np.zeros(len(self.members), bool)
        self.has_native: Bools = np.zeros(len(self.members), bool)  # the look that tells has a native stack
        self.steady: Bools = np.ones(
            len(self.members), bool
        )  # the same kind in every look that could be read
        self._source: Ints = np.full(len(self.members), UNKNOWN)  # which sample tells
        for number, (sample, rows) in enumerate(zip(self.snapshot.samples, self._looks, strict=True)):
            here = np.flatnonzero(rows >= 0)
            if not len(here):
                continue
            doings, which = self._doings_of(sample, rows[here], self.lane[here])
            readable = np.array([doing.kind is not Kind.UNREAD for doing in doings], bool)
            newer = readable[which] | (self._source[here] == UNKNOWN) | (kind[here] == Kind.UNREAD)
            native = np.array([doing.lock is not None for doing in doings], bool)
            for i in np.flatnonzero(newer & self.has_native[here] & ~native[which]):
                newer[i] = not self._is_at_the_same(int(here[i]), doings[int(which[i])])
            at, which = here[newer], which[newer]
            kinds = np.array([doing.kind for doing in doings], np.int64)[which]
            self.steady[at] &= (kind[at] == Kind.UNREAD) | (kind[at] == kinds)
            kind[at] = kinds
            posture[at] = np.array([doing.posture for doing in doings], np.int64)[which]
            asks[at] = np.array([doing.waits_on_user_line for doing in doings], bool)[which]
            self.asks_device[at] = np.array([doing.may_wait_for_device for doing in doings], bool)[which]
            self.has_native[at] = native[which]
            self._source[at] = number
        return kind, posture, asks

    def _is_at_the_same(self, at: int, doing: Doing) -> bool:
        """The functions of the look that has a native stack, and how it sits: then that look still tells."""
        sample = self.snapshot.samples[int(self._source[at])]
        row = self._looks[int(self._source[at])][at]
        told = self.doing(sample.sightings[int(sample.sighting[row])], Role.RANK, int(self.lane[at]))
        return told.posture is doing.posture and _path(told) == _path(doing)

    def _doings_of(self, sample: Sample, rows: Ints, lanes: Ints) -> tuple[list[Doing], Ints]:
        """What the members on these rows do, each distinct thing once, and which of those each one does."""
        if not lanes.any():
            return [self.doing(sighting, Role.RANK) for sighting in sample.sightings], sample.sighting[rows]
        pairs, which = np.unique(np.stack([sample.sighting[rows], lanes]), axis=1, return_inverse=True)
        doings = [self.doing(sample.sightings[seen], Role.RANK, lane) for seen, lane in pairs.T.tolist()]
        return doings, which.reshape(-1)

    def doing(self, sighting: Sighting, role: Role, lane: int = 0) -> Doing:
        """What a process, or one lane of it, does, by one look at it. Found out once per sighting."""
        known = self._doings.get((id(sighting), role, lane))
        if known is None:  # the sighting is kept, so that its id stays its own
            doing = classify(sighting, self.framework, role, lane, self.whose, starves=not self._computes)
            known = self._doings[id(sighting), role, lane] = (sighting, doing)
        return known[1]

    @cached_property
    def _computes(self) -> bool:
        """Whether a job of one process used its CPU between the looks: then its step waits for nothing for long."""
        if self.count_ranks > 1:
            return False
        spent = [float(sample.cpu_s[sample.role == Role.RANK].sum()) for sample in self.snapshot.samples]
        return any(after - before > COMPUTES_S for before, after in pairwise(spent))

    @cached_property
    def _rows_of(self) -> tuple[dict[tuple[int, int], list[int]], ...]:
        """Per look the rows of each rank and pid (pids repeat across nodes): asked per rank, so never searched."""
        looks = []
        for look in self.snapshot.samples:
            rows: dict[tuple[int, int], list[int]] = {}
            for row, key in enumerate(zip(look.rank.tolist(), look.pid.tolist(), strict=True)):
                rows.setdefault(key, []).append(row)
            looks.append(rows)
        return tuple(looks)

    # ------------------------------------------------------------ asking

    def positions(self, ranks: Ints) -> Ints:
        """Where these ranks stand in the columns; they must be known."""
        return np.searchsorted(self.members, ranks)

    def position(self, rank: int) -> int:
        """Where this rank stands in the columns, UNKNOWN for a rank nobody has heard of."""
        at = int(np.searchsorted(self.members, rank))
        return at if at < len(self.members) and self.members[at] == rank else UNKNOWN

    def members_of(self, rank: int) -> list[int]:
        """The members that share the process of a rank; none for a rank nobody has heard of."""
        return [int(member) for member in self.members[self.rank == rank]] if self.lane.any() else [rank]

    @cached_property
    def world(self) -> int:
        """How many members the job has."""
        world_size = self.snapshot.world_size
        return world_size if world_size > 0 and not self.lane.any() else len(self.members)

    @cached_property
    def in_world(self) -> Bools:
        """Members whose rank the job should have."""
        world_size = self.snapshot.world_size
        return self.rank < (world_size if world_size > 0 else len(self.members))

    @cached_property
    def names(self) -> Names:
        """How sentences call the members of this job."""
        plain = self.framework.words.task
        tasks = tuple((rank, task) for rank, task in self._tasks if task != f"{plain} {rank}")
        return Names(self.framework.words, self.count_ranks, self.snapshot.lanes, tasks)

    @cached_property
    def _tasks(self) -> tuple[tuple[int, str], ...]:
        roster = self.snapshot.roster
        told = zip(roster.rank.tolist(), roster.task.tolist(), strict=True)
        return tuple(sorted({(rank, roster.tasks[task]) for rank, task in told if task >= 0}))

    @cached_property
    def aside(self) -> Bools:
        """Members that take part in nothing the others do: nobody waits for them."""
        ranks = [rank for rank, task in self._tasks if self.framework.aside.search(task)]
        return np.isin(self.rank, np.array(ranks, np.int64))

    @cached_property
    def count_ranks(self) -> int:
        """How many ranks the job has, however many members each of them is."""
        world_size = self.snapshot.world_size
        return world_size if world_size > 0 else len(np.unique(self.rank))

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """How far the members of each group have come."""
        return standings(self.snapshot, self.members[self.in_world], self.framework)

    @cached_property
    def progress_read(self) -> Bools:
        """Ranks whose recorder was read."""
        return np.isin(self.members, self.snapshot.comms.progress.member)

    @cached_property
    def on_gpu(self) -> bool:
        """Whether the job computes on GPUs: one of its ranks has one, a group is of a backend for them, or a rank spins
        inside a collective, as NCCL does (gloo sleeps there).
        """
        if any(self.framework.on_device(group.backend) for group in self.snapshot.comms.groups):
            return True
        spins = np.isin(self.kind, tuple(COMMUNICATING)) & (self.posture == Posture.BUSY) & self.steady
        return bool(spins.any()) or any(
            not np.isnan(sample.gpu_busy[sample.role == Role.RANK]).all()
            for sample in self.snapshot.samples
            if (sample.role == Role.RANK).any()
        )

    @cached_property
    def plainly_elsewhere(self) -> Bools:
        """Ranks that certainly no device keeps: by their stack, by the kernel, by their native stack."""
        code = np.isin(self.kind, (Kind.USER, Kind.OPTIMIZER))
        own = np.isin(self.kind, tuple(OWN_BUSINESS)) | np.isin(self.phase, ELSEWHERE)
        own |= code & (np.isin(self.posture, _OF_ITS_OWN) | self.has_native)
        return np.asarray(own & self.live | self.frozen | self.gone)

    @cached_property
    def may_wait_for_device(self) -> Bools:
        """Ranks at a busy line of the user's that may be `.item()`: on GPUs, or while another is plainly elsewhere.

        Where no GPU is and everybody else is in a collective, a busy rank is what it looks like.
        """
        vague = self.asks_device & self.live & ~self.progress_read & ~np.isin(self.phase, ELSEWHERE)
        if self.world == 1 or not vague.any() or not (self.on_gpu or self.plainly_elsewhere.any()):
            return np.zeros(len(self.members), bool)
        return np.asarray(vague)

    @cached_property
    def native_fades(self) -> Bools:
        """Ranks whose native stack is only in the oldest look that is kept: the next look pushes it out."""
        full = len(self.snapshot.samples) >= max(2, self.snapshot.settings.samples)
        return np.asarray(self.has_native & (self._source == 0) & full)

    @cached_property
    def live(self) -> Bools:
        """Ranks that have a process."""
        return (self.in_roster | (self._row >= 0)) & ~self.gone

    @cached_property
    def frozen(self) -> Bools:
        """Rank processes that are stopped in every look in which they appear."""
        seen = np.zeros(len(self.members), bool)
        always = np.ones(len(self.members), bool)
        for sample, rows in zip(self.snapshot.samples, self._looks, strict=True):
            here = rows >= 0
            held = np.array([sighting.state in ("T", "t") for sighting in sample.sightings], bool)
            seen |= here
            always[here] &= held[sample.sighting[rows[here]]]
        return seen & always & ~self.gone

    def host(self, rank: int) -> str:
        """The node the rank runs on, or nothing."""
        at = self.position(rank)
        row = int(self._roster_row[at]) if at >= 0 else UNKNOWN
        if row < 0:
            return ""
        node = int(self.snapshot.roster.node[row])
        return self.snapshot.roster.nodes[node] if 0 <= node < len(self.snapshot.roster.nodes) else ""

    def pid(self, rank: int) -> int | None:
        """The rank's process, living or gone."""
        at = self.position(rank)
        row = int(self._roster_row[at]) if at >= 0 else UNKNOWN
        if row >= 0:
            return int(self.snapshot.roster.pid[row])
        if rank in self.gone_ranks:
            return self.gone_ranks[rank].pid
        return self.rank_process(rank).pid or None

    def phase_of(self, rank: int) -> Phase | None:
        """What the rank's page says it does; None without a page."""
        at = self.position(rank)
        value = int(self.phase[at]) if at >= 0 else UNKNOWN
        return Phase(value) if value in Phase._value2member_map_ else None

    def rank_process(self, rank: int) -> SeenProcess:
        """The rank's own process in the newest look that could read it; UNREAD when none could."""
        at = self.position(rank)
        source = int(self._source[at]) if at >= 0 else UNKNOWN
        if source < 0:
            return SeenProcess(rank, Role.RANK, UNKNOWN, 0, NO_SIGHTING, UNREAD, "")
        sample = self.snapshot.samples[source]
        row = int(self._looks[source][at])
        seen = self._seen(source, row, int(self.lane[at]))
        newest = int(self._row[at])
        if newest >= 0 and not math.isfinite(seen.tick_age_s):
            tick = float(self.snapshot.samples[-1].tick_age_s[newest])
        else:
            tick = seen.tick_age_s
        if not math.isfinite(tick):
            tick = float(self._beat_tick[at])
        return SeenProcess(
            rank, Role.RANK, UNKNOWN, seen.pid, sample.sightings[int(sample.sighting[row])], seen.doing, seen.states,
            seen.fetching, seen.fetch_age_s, tick, seen.gpu_busy,
        )  # fmt: skip

    def _seen(self, source: int, row: int, lane: int = 0) -> SeenProcess:
        sample = self.snapshot.samples[source]
        pid = int(sample.pid[row])
        role = Role(int(sample.role[row]))
        sighting = sample.sightings[int(sample.sighting[row])]
        states = []
        for look, rows in zip(self.snapshot.samples, self._rows_of, strict=True):
            for at in rows.get((int(sample.rank[row]), pid), ()):
                states.append(look.sightings[int(look.sighting[at])].state)
        return SeenProcess(
            int(sample.rank[row]), role, int(sample.index[row]), pid, sighting, self.doing(sighting, role, lane),
            "".join(state for state in states if len(state) == 1), int(sample.fetching[row]),
            float(sample.fetch_age_s[row]), float(sample.tick_age_s[row]), float(sample.gpu_busy[row]),
        )  # fmt: skip

    def others_of(self, rank: int, role: Role) -> list[SeenProcess]:
        """Other living processes of a rank in the newest look: its loader workers, its children."""
        if not self.snapshot.samples:
            return []
        newest = self.snapshot.samples[-1]
        rows = np.flatnonzero((newest.rank == rank_of(rank)) & (newest.role == role))
        ended = {gone.pid for gone in self.snapshot.gone if gone.rank == rank_of(rank)}
        seen = [self._seen(len(self.snapshot.samples) - 1, int(row)) for row in rows]
        return [one for one in seen if one.pid not in ended and one.sighting.state not in ("gone", "Z")]


def _path(doing: Doing) -> Path:
    return functions(doing.thread.stack) if doing.thread is not None else ()
