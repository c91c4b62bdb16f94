"""Snapshots as sentences: `scene(all_reduce=[0, 1, 3], loader=[2])`.

Each rank gets a stack, a page, a recorder and a pid (4000 + 10 * rank; its loader workers 4001 + 10 * rank + index).
A keyword is either an operation that ranks are blocked in, or what a rank does instead (see DOINGS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ddetect.model import (
    UNKNOWN,
    Beats,
    CallSpec,
    Comms,
    Departure,
    Frame,
    Gone,
    Group,
    Look,
    OpenP2P,
    Ops,
    OpState,
    P2PKind,
    Phase,
    Progress,
    Role,
    Roster,
    Sample,
    Settings,
    Sighting,
    Snapshot,
    Thread,
    Unread,
)
from tests.unit.snapshots import changed

SITE = "/venv/lib/python3.11/site-packages"
LIB = "/usr/lib/python3.11"
C10D = f"{SITE}/torch/distributed/distributed_c10d.py"
PROBE = "/opt/launcher/ddetect_probe/torch_.py"
LOADER = f"{SITE}/torch/utils/data/dataloader.py"
DEFAULT = Group("gloo", "0", "default_pg")


def frames(*lines: str) -> tuple[Frame, ...]:
    """Read "function file:line" lines, innermost first."""
    found = []
    for line in lines:
        function, rest = line.split(" ", 1)
        file, number = rest.rsplit(":", 1)
        found.append(Frame(function, file, int(number)))
    return tuple(found)


TRAIN = ("train /job/train.py:40", "<module> /job/train.py:90")


def thread(*lines: str, main: bool = True, **more: object) -> Thread:
    values: dict[str, object] = {"name": "MainThread", "active": False, "owns_gil": False, "state": "S"}
    values.update(more)
    return Thread(is_main=main, stack=frames(*lines), **values)  # type: ignore[arg-type]


def sighting(*threads: Thread, state: str = "S", unread: str = "") -> Sighting:
    return Sighting(state, tuple(threads), "py-spy" if threads else "", unread)


FUTEX = {"wchan": "futex_do_wait", "syscall": "futex"}
SLEEPS = {"wchan": "hrtimer_nanosleep", "syscall": "clock_nanosleep"}
CONSUMER = (
    f"wait {LIB}/threading.py:324",
    f"get {LIB}/queue.py:180",
    f"_try_get_data {LOADER}:1275",
    f"_get_data {LOADER}:1400",
    f"_next_data {LOADER}:1440",
    f"__next__ {LOADER}:733",
    f"next_ {PROBE}:10",
    *TRAIN,
)
WORKER = f"{SITE}/torch/utils/data/_utils/worker.py"
FETCH = f"fetch {SITE}/torch/utils/data/_utils/fetch.py:54"
IDLE_WORKER = sighting(
    thread(
        f"select {LIB}/selectors.py:415",
        f"wait {LIB}/multiprocessing/connection.py:947",
        f"poll {LIB}/multiprocessing/connection.py:257",
        f"get {LIB}/multiprocessing/queues.py:113",
        f"_worker_loop {WORKER}:275",
        *CONSUMER[-2:],
    )
)
STUCK_WORKER = sighting(
    thread(
        "read_shard /job/dataset.py:88",
        "__getitem__ /job/dataset.py:60",
        FETCH,
        f"_worker_loop {WORKER}:275",
        *TRAIN,
        **SLEEPS,
    )
)


def in_call(op: str, **more: object) -> Sighting:
    return sighting(
        thread(
            f"{op} {C10D}:2810",
            f"wrapper {SITE}/torch/distributed/c10d_logger.py:81",
            *TRAIN,
            **{**FUTEX, **more},
        )
    )


@dataclass
class Doing:
    """What a rank does that is in no operation."""

    look: Sighting
    phase: Phase = Phase.OTHER
    workers: tuple[Sighting, ...] = ()
    tick_age_s: float = 0.2


DOINGS: dict[str, Doing] = {
    "loader": Doing(sighting(thread(*CONSUMER, **FUTEX)), Phase.DATA, (IDLE_WORKER, STUCK_WORKER)),
    "fetch": Doing(
        sighting(
            thread(
                "read_shard /job/dataset.py:88",
                FETCH,
                f"_next_data {LOADER}:780",
                f"__next__ {LOADER}:733",
                *TRAIN,
                **SLEEPS,
            )
        ),
        Phase.DATA,
    ),
    "asleep": Doing(sighting(thread("evaluate /job/train.py:55", *TRAIN, **SLEEPS))),
    "spinning": Doing(sighting(thread("spin /job/train.py:57", *TRAIN, active=True, state="R"), state="R")),
    "pdb": Doing(
        sighting(
            thread(
                f"cmdloop {LIB}/cmd.py:126",
                f"_cmdloop {LIB}/pdb.py:359",
                f"interaction {LIB}/pdb.py:431",
                f"user_line {LIB}/pdb.py:330",
                "inspect_batch /job/train.py:66",
                *TRAIN,
            )
        )
    ),
    "input": Doing(
        sighting(
            thread("ask /job/train.py:70", *TRAIN, syscall="read", target="/dev/pts/3", wchan="wait_woken")
        )
    ),
    "lock": Doing(
        sighting(
            thread(
                "take /job/cache.py:12",
                *TRAIN,
                **FUTEX,
                native=("__futex_wait", "PyThread_acquire_lock_timed", "lock_PyThread_acquire_lock"),
            ),
            thread(
                "refill /job/cache.py:30",
                "run /usr/lib/python3.11/threading.py:982",
                main=False,
                name="refill",
                **FUTEX,
            ),
        )
    ),
    "queue": Doing(
        sighting(
            thread(
                f"wait {LIB}/threading.py:320",
                f"get {LIB}/queue.py:171",
                "next_item /job/feed.py:9",
                *TRAIN,
                **FUTEX,
            )
        )
    ),
    "futex": Doing(sighting(thread("take /job/cache.py:12", *TRAIN, **FUTEX))),
    "gil": Doing(
        sighting(thread("crunch /job/native.py:21", *TRAIN, owns_gil=True, **SLEEPS)), tick_age_s=9.0
    ),
    "stopped": Doing(sighting(thread("train /job/train.py:44", TRAIN[1], state="T"), state="T")),
    "flock": Doing(
        sighting(
            thread(
                "lock_cache /job/cache.py:31",
                *TRAIN,
                syscall="flock",
                target="/data/cache.lock",
                wchan="locks_lock_inode_wait",
            )
        )
    ),
    "fifo": Doing(
        sighting(
            thread(
                "read_pipe /job/feed.py:31",
                *TRAIN,
                syscall="openat",
                target="/data/feed.fifo",
                wchan="wait_for_partner",
            )
        )
    ),
    "disk": Doing(sighting(thread("save /job/train.py:77", *TRAIN, state="D", wchan="gpfs_wait"), state="D")),
    "http": Doing(
        sighting(
            thread(
                f"recv_into {LIB}/socket.py:706",
                f"begin {LIB}/http/client.py:318",
                f"urlopen {SITE}/urllib3/connectionpool.py:790",
                "report /job/metrics.py:14",
                *TRAIN,
                syscall="recvfrom",
                target="socket:[77]",
            )
        )
    ),
    "leaving": Doing(
        sighting(thread(f"destroy_process_group {C10D}:2200", "finish /job/train.py:80", TRAIN[1], **FUTEX)),
        Phase.LEAVING,
    ),
    "exiting": Doing(sighting(thread(f"_shutdown {LIB}/threading.py:1500", **FUTEX)), Phase.EXITING),
    "starting": Doing(sighting(thread("download /job/prepare.py:5", TRAIN[1], **SLEEPS)), Phase.STARTING),
    "joining": Doing(
        sighting(
            thread(
                f"_new_process_group_helper {C10D}:1900",
                f"init_process_group {C10D}:1700",
                "setup /job/train.py:20",
                **FUTEX,
            )
        ),
        Phase.JOINING,
    ),
    "computing": Doing(
        sighting(
            thread(
                f"_engine_run_backward {SITE}/torch/autograd/graph.py:865",
                f"backward {SITE}/torch/_tensor.py:625",
                *TRAIN,
                state="R",
                active=True,
            )
        )
    ),
    "item": Doing(sighting(thread("log_loss /job/train.py:61", *TRAIN, state="R", active=True))),
    "building": Doing(
        sighting(
            thread(
                f"_compile_to_module {SITE}/torch/_inductor/graph.py:2000",
                f"compile_fx {SITE}/torch/_inductor/compile_fx.py:10",
                *TRAIN,
                **FUTEX,
            )
        )
    ),
    "unread": Doing(sighting(unread="py-spy: permission denied")),
}


@dataclass
class Row:
    """One rank as the builder collects it."""

    look: Sighting
    phase: int = Phase.OTHER
    workers: tuple[Sighting, ...] = ()
    children: tuple[Sighting, ...] = ()
    tick_age_s: float = 0.2
    open_seq: dict[int, int] = field(default_factory=dict)  # group -> seq
    enqueued: dict[int, int] = field(default_factory=dict)


@dataclass
class Builder:
    """Collects what the ranks do; `snapshot()` makes the columns."""

    world: int
    groups: list[Group]
    seq: int = 412
    rows: dict[int, Row] = field(default_factory=dict)
    ops: list[tuple[int, int, int, CallSpec, OpState]] = field(default_factory=list)
    p2p: list[tuple[int, P2PKind, int, int, int]] = field(
        default_factory=list
    )  # rank kind peer group waiting
    gone: list[Gone] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    looks: int = 3
    age_s: float = 8.0

    def does(self, rank: int, name: str) -> Row:
        doing = DOINGS[name]
        row = Row(doing.look, doing.phase, doing.workers, tick_age_s=doing.tick_age_s)
        self.rows[rank] = row
        return row

    def enters(
        self,
        rank: int,
        op: str,
        *,
        group: int = 0,
        seq: int | None = None,
        look: Sighting | None = None,
        signature: CallSpec | None = None,
        state: OpState = OpState.ENQUEUED,
    ) -> None:
        """The rank is blocked in an operation."""
        number = self.seq if seq is None else seq
        if rank not in self.rows:
            self.rows[rank] = Row(look or in_call(op), Phase.COLLECTIVE)
        row = self.rows[rank]
        row.enqueued[group] = number
        row.open_seq[group] = number
        self.ops.append(
            (rank, group, number, signature or CallSpec(op, "[[16]]", "[Float]", "[[16]]", "[Float]"), state)
        )

    def snapshot(self, **more: object) -> Snapshot:
        order = sorted(
            rank for rank in self.rows if rank not in {g.rank for g in self.gone if g.role is Role.RANK}
        )
        pids = [4000 + 10 * rank for rank in order]
        rows = [self.rows[rank] for rank in order]
        count = len(order)
        roster = Roster(order, [0] * count, [0] * count, pids, pids, ("node-0",))
        beats = Beats(
            step=[100] * count,
            step_age_s=[self.age_s] * count,
            batch=[100] * count,
            calls=[9] * count,
            collectives=[0] * count,
            activity_age_s=[self.age_s] * count,
            phase=[row.phase for row in rows],
            phase_age_s=[self.age_s] * count,
            tick_age_s=[row.tick_age_s for row in rows],
            state=[ord(row.look.state[:1] or "S") for row in rows],
            cpu_s=[1.0] * count,
            io_bytes=[1000] * count,
            has_page=[int(row.phase != UNKNOWN) for row in rows],
        )
        progress = [
            (
                rank,
                group,
                row.enqueued.get(group, self.seq - 1),
                self._done(row, group),
                row.open_seq.get(group, 0),
            )
            for rank, row in zip(order, rows, strict=True)
            for group, known in enumerate(self.groups)
            if not known.members or rank in known.members
        ]
        calls = list(dict.fromkeys(op[3] for op in self.ops))
        comms = Comms(
            groups=tuple(self.groups),
            calls=tuple(calls),
            progress=Progress(
                rank=[p[0] for p in progress],
                group=[p[1] for p in progress],
                enqueued=[p[2] for p in progress],
                started=[0] * len(progress),
                completed=[p[3] for p in progress],
                oldest_open=[p[4] for p in progress],
                first_kept=[1] * len(progress),
            ),
            ops=Ops(
                rank=[o[0] for o in self.ops],
                group=[o[1] for o in self.ops],
                seq=[o[2] for o in self.ops],
                call=[calls.index(o[3]) for o in self.ops],
                state=[o[4] for o in self.ops],
                frame=[UNKNOWN] * len(self.ops),
            ),
            p2p=OpenP2P(
                rank=[p[0] for p in self.p2p],
                kind=[p[1] for p in self.p2p],
                peer=[p[2] for p in self.p2p],
                tag=[0] * len(self.p2p),
                group=[p[3] for p in self.p2p],
                waiting=[p[4] for p in self.p2p],
                age_s=[8.0] * len(self.p2p),
            ),
        )
        samples = [self._sample(order) for _ in range(self.looks)]
        looks = [*(Look(sample) for sample in samples[:-1]), Look(samples[-1], comms, tuple(self.unread))]
        snapshot = Snapshot(
            job="test",
            world_size=self.world,
            stalled_for_s=self.age_s,
            roster=roster,
            beats=beats,
            looks=tuple(looks),
            gone=tuple(self.gone),
            settings=Settings(),
        )
        return changed(snapshot, **more)  # type: ignore[arg-type]

    def _done(self, row: Row, group: int) -> int:
        return row.open_seq[group] - 1 if group in row.open_seq else row.enqueued.get(group, self.seq - 1)

    def _sample(self, order: Sequence[int]) -> Sample:
        looks: list[Sighting] = []
        columns: dict[str, list[float]] = {
            name: []
            for name in ("rank", "role", "index", "pid", "sighting", "fetching", "fetch_age_s", "tick_age_s")
        }

        def add(
            rank: int, role: Role, index: int, pid: int, look: Sighting, fetch: tuple[int, float], tick: float
        ) -> None:
            if look not in looks:
                looks.append(look)
            values = (rank, role, index, pid, looks.index(look), *fetch, tick)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)

        for rank in order:
            row = self.rows[rank]
            add(rank, Role.RANK, UNKNOWN, 4000 + 10 * rank, row.look, (UNKNOWN, math.inf), row.tick_age_s)
            for index, look in enumerate(row.workers):
                fetch = (UNKNOWN, math.inf) if look == IDLE_WORKER else (640, self.age_s)
                add(rank, Role.LOADER_WORKER, index, 4001 + 10 * rank + index, look, fetch, 0.2)
            for number, look in enumerate(row.children):
                pid = 4005 + 10 * rank + number
                add(rank, Role.CHILD, UNKNOWN, pid, look, (UNKNOWN, math.inf), math.inf)
        count = len(columns["rank"])
        return Sample(**columns, cpu_s=[1.0] * count, io_bytes=[1000] * count, sightings=tuple(looks))  # type: ignore[arg-type]


def build(world: int, groups: Sequence[Group] = (), **more: object) -> Builder:
    """A builder for `world` ranks; the default gloo group when none is given."""
    found = list(groups) or [replace(DEFAULT, members=tuple(range(world)))]
    return Builder(world, found, **more)  # type: ignore[arg-type]


def scene(
    *, world: int | None = None, gone: Iterable[Gone] = (), seq: int = 412, **parts: Sequence[int]
) -> Snapshot:
    """A snapshot in which each keyword lists the ranks that do it."""
    named = [rank for ranks in parts.values() for rank in ranks] + [g.rank for g in gone]
    builder = build(world or max(named) + 1, seq=seq)
    builder.gone = list(gone)
    for what, ranks in parts.items():
        for rank in ranks:
            if what in DOINGS:
                builder.does(rank, what)
            elif what == "backward":
                builder.enters(rank, "all_reduce", look=DOINGS["computing"].look)
                builder.rows[rank].phase = Phase.OTHER
            else:
                builder.enters(rank, what)
    return builder.snapshot()


def died(
    rank: int, how: Departure, *, age_s: float = 5.0, exception: str = "", where: Frame | None = None
) -> Gone:
    return Gone(rank, Role.RANK, UNKNOWN, 4000 + 10 * rank, how, age_s, exception, where)


def without_progress(snapshot: Snapshot, rank: int) -> Snapshot:
    """The same, but this rank's recorder was not read: nor what it posted on its device."""
    keep, ops = snapshot.comms.progress.rank != rank, snapshot.comms.ops.rank != rank
    progress = Progress(
        **{name: getattr(snapshot.comms.progress, name)[keep] for name in Progress.__dataclass_fields__}
    )
    told = Ops(**{name: getattr(snapshot.comms.ops, name)[ops] for name in Ops.__dataclass_fields__})
    return changed(
        snapshot,
        progress=progress,
        ops=told,
        p2p=_without_rows(snapshot, rank, on_device=True),
        unread=(*snapshot.unread, Unread((rank,), "its recorder did not answer")),
    )


def _without_rows(snapshot: Snapshot, rank: int, *, on_device: bool) -> OpenP2P:
    """Recorders tell what was posted on a device, pages the rest."""
    rows = snapshot.comms.p2p
    device = np.array(
        [
            0 <= g < len(snapshot.comms.groups) and snapshot.comms.groups[g].backend == "nccl"
            for g in rows.group
        ],
        bool,
    )
    keep = (rows.rank != rank) | (device != on_device)
    return OpenP2P(**{name: getattr(rows, name)[keep] for name in OpenP2P.__dataclass_fields__})


def with_wrapped_ring(snapshot: Snapshot, rank: int) -> Snapshot:
    """The same, but this rank's recorder has kept only the newest operation of its busiest group."""
    progress, ops = snapshot.comms.progress, snapshot.comms.ops
    mine = np.flatnonzero(progress.rank == rank)
    if not len(mine):
        return snapshot
    busiest = mine[np.argmax(progress.enqueued[mine])]
    keep = progress.rank != rank
    keep[busiest] = True
    columns = {name: getattr(progress, name) for name in Progress.__dataclass_fields__}
    columns["first_kept"] = np.where(progress.rank == rank, progress.enqueued, progress.first_kept)
    newest = (ops.group == progress.group[busiest]) & (ops.seq == progress.enqueued[busiest])
    kept = (ops.rank != rank) | newest
    return changed(
        snapshot,
        progress=Progress(**{name: column[keep] for name, column in columns.items()}),
        ops=Ops(**{name: getattr(ops, name)[kept] for name in Ops.__dataclass_fields__}),
    )


def without_stack(snapshot: Snapshot, rank: int, state: str = "S") -> Snapshot:
    """The same, but no stack of this rank's process could be taken."""
    return _seen_otherwise(snapshot, rank, (Role.RANK,), lambda sighting: replace(_UNREADABLE, state=state))


def without_worker_stacks(snapshot: Snapshot, rank: int) -> Snapshot:
    """The same, but no stack of its loader workers could be taken."""
    return _seen_otherwise(snapshot, rank, (Role.LOADER_WORKER,), lambda sighting: _UNREADABLE)


def without_native(snapshot: Snapshot, rank: int) -> Snapshot:
    """The same, but there was no time for C symbols."""

    def plain(sighting: Sighting) -> Sighting:
        return replace(sighting, threads=tuple(replace(thread, native=()) for thread in sighting.threads))

    return _seen_otherwise(snapshot, rank, tuple(Role), plain)


_UNREADABLE = Sighting("S", unread="py-spy: permission denied")


def _seen_otherwise(
    snapshot: Snapshot, rank: int, roles: tuple[Role, ...], seen: Callable[[Sighting], Sighting]
) -> Snapshot:
    samples = []
    for sample in snapshot.samples:
        mine = (sample.rank == rank) & np.isin(sample.role, roles)
        others = tuple(map(seen, sample.sightings))
        if all(sample.sightings[i] == others[i] for i in set(sample.sighting[mine].tolist())):
            samples.append(sample)
            continue
        columns = {name: getattr(sample, name) for name in Sample.__dataclass_fields__ if name != "sightings"}
        columns["sighting"] = np.where(mine, len(sample.sightings) + sample.sighting, sample.sighting)
        samples.append(Sample(**columns, sightings=(*sample.sightings, *others)))
    same = all(a is b for a, b in zip(samples, snapshot.samples, strict=True))
    return snapshot if same else changed(snapshot, samples=tuple(samples))


def without_page(snapshot: Snapshot, rank: int) -> Snapshot:
    """The same, but this rank and its workers have no page: no phase, no fetch, no tick, no call that was begun."""
    row = snapshot.roster.rank == rank
    columns = {name: getattr(snapshot.beats, name) for name in Beats.__dataclass_fields__}
    lost = {"has_page": 0, "phase": Phase.OTHER, "tick_age_s": np.inf, "calls": 0, "batch": 0}
    columns |= {name: np.where(row, nothing, columns[name]) for name, nothing in lost.items()}
    samples = []
    for sample in snapshot.samples:
        mine = sample.rank == rank
        samples.append(
            replace(
                sample,
                fetching=np.where(mine, UNKNOWN, sample.fetching),
                fetch_age_s=np.where(mine, np.inf, sample.fetch_age_s),
                tick_age_s=np.where(mine, np.inf, sample.tick_age_s),
            )
        )
    p2p = _without_rows(snapshot, rank, on_device=False)
    return changed(snapshot, beats=Beats(**columns), samples=tuple(samples), p2p=p2p)


def relabel(snapshot: Snapshot, order: list[int]) -> Snapshot:
    """Rename rank r to order[r] everywhere a rank is written."""
    to = np.array(order)

    def renamed(table, *names: str):
        columns = {name: getattr(table, name) for name in table.__dataclass_fields__}
        for name in names:
            column = columns[name]
            columns[name] = np.where(column >= 0, to[np.maximum(column, 0)], column)
        return type(table)(**columns)

    signatures = tuple(
        replace(s, root=order[s.root] if s.root >= 0 else s.root) for s in snapshot.comms.calls
    )
    groups = tuple(
        replace(g, members=tuple(sorted(order[m] for m in g.members))) for g in snapshot.comms.groups
    )
    return changed(
        snapshot,
        roster=renamed(snapshot.roster, "rank"),
        samples=tuple(renamed(s, "rank") for s in snapshot.samples),
        progress=renamed(snapshot.comms.progress, "rank"),
        ops=renamed(snapshot.comms.ops, "rank"),
        p2p=renamed(snapshot.comms.p2p, "rank", "peer"),
        groups=groups,
        calls=signatures,
        gone=tuple(replace(g, rank=order[g.rank]) for g in snapshot.gone),
        unread=tuple(replace(u, ranks=tuple(sorted(order[r] for r in u.ranks))) for u in snapshot.unread),
    )
