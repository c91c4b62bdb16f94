"""The beat: how every rank of the node is, once a second, as columns.

Enters: the census. Leaves: NodeRoster when the rows changed, NodeBeat always. Ranks that have joined but
never take an optimizer step are also asked by their Flight Recorder, slowly and in the background: nothing
else tells whether they move.
Never here: stacks, anything that could wait.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor

from ddetect.agent.census import Census
from ddetect.agent.flight import FlightReader
from ddetect.agent.members import JobProcess
from ddetect.agent.pages import Told, age_s, blind_spots, read_told
from ddetect.host.proc import read_io_bytes
from ddetect.messages import NodeBeat, NodeRoster
from ddetect.model import UNKNOWN, Beats, Roster

_POLL_NS = 3_000_000_000
_POLL_SHARE = 0.005  # of one core: a full ring takes a while to read, so it is read more seldom


class Recorder:
    """Collectives completed by ranks that have no other sign of progress."""

    def __init__(
        self, flight: FlightReader, pool: Executor, cpu_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._flight = flight
        self._pool = pool
        self._cpu_s = cpu_s
        self._counts: dict[tuple[int, int], int] = {}
        self._moved_ns: dict[tuple[int, int], int] = {}
        self._asked_ns: dict[tuple[int, int], int] = {}
        self._poll_at_ns = 0
        self._asking = False

    def poll(self, ranks: list[tuple[JobProcess, int]], now_ns: int) -> None:
        """Start asking these ranks, unless it is too early or the last round is not over.

        With each goes when its page last moved: what the page saw itself has a better time there than here. A move
        that only the recorder saw, just after the page's last, is therefore noticed a round late.
        """
        if not ranks or self._asking or now_ns < self._poll_at_ns:
            return
        self._asking = True
        self._pool.submit(self._round, ranks)

    def _round(self, ranks: list[tuple[JobProcess, int]]) -> None:
        began = self._cpu_s()
        try:
            for member, page_moved_ns in ranks:
                asked_ns = time.monotonic_ns()
                told = self._flight.read(member).digest
                if told is None:
                    continue
                before, asked_before_ns = self._counts.get(member.key), self._asked_ns.get(member.key, 0)
                if before is not None and told.completed != before and page_moved_ns < asked_before_ns:
                    self._moved_ns[member.key] = time.monotonic_ns()
                self._counts[member.key] = told.completed
                self._asked_ns[member.key] = asked_ns
        finally:
            pause_ns = int((self._cpu_s() - began) / _POLL_SHARE * 1e9)
            self._poll_at_ns = time.monotonic_ns() + max(_POLL_NS, pause_ns)
            self._asking = False

    def count(self, member: JobProcess) -> int:
        """Collectives completed when it was last asked; 0 if never."""
        return self._counts.get(member.key, 0)

    def moved_age_s(self, member: JobProcess, now_ns: int) -> float:
        """Seconds since that number was seen to change; infinite if never."""
        return age_s(self._moved_ns.get(member.key, 0), now_ns)


class BeatMaker:
    """Turns the census into what is sent each second."""

    def __init__(
        self,
        node: str,
        census: Census,
        recorder: Recorder,
        tell: Callable[[JobProcess, int], Told] = read_told,
    ) -> None:
        self._node = node
        self._census = census
        self._recorder = recorder
        self._tell = tell
        self._told: tuple[tuple[tuple[int, ...], ...], str, tuple[str, ...]] | None = None
        self._version = 0

    def make(self, now_ns: int) -> tuple[NodeRoster, bool, NodeBeat]:
        """The roster, whether it is new, and the beat that goes with it."""
        told = [(member, self._tell(member, now_ns)) for member in self._census.ranks()]
        rows = tuple(
            (
                member.rank,
                lane.lane,
                member.pid,
                member.start_ticks,
                member.restart,
                member.world_size,
                UNKNOWN if member.local_world is None else member.local_world,
            )
            for member, page in told
            for lane in page.lanes
        )
        names = [page.framework for _, page in told if page.framework]
        framework = max(names, key=names.count, default="")
        tasks = tuple(page.task for _, page in told for _ in page.lanes)
        changed = (rows, framework, tasks) != self._told
        if changed:
            self._told = (rows, framework, tasks)
            self._version += 1
        quiet = [
            (member, _moved_ns(page, now_ns))
            for member, page in told
            if page.joined and not any(lane.steps for lane in page.lanes) and not member.gone
        ]
        self._recorder.poll(quiet, now_ns)
        return (
            self._roster(rows, framework, tasks),
            changed,
            NodeBeat(self._version, self._beats(told, now_ns)),
        )

    def _roster(
        self, rows: tuple[tuple[int, ...], ...], framework: str, tasks: tuple[str, ...]
    ) -> NodeRoster:
        names = tuple(dict.fromkeys(task for task in tasks if task))
        columns = list(zip(*rows, strict=True)) if rows else [()] * 7
        roster = Roster(
            rank=columns[0],  # type: ignore[arg-type]  # freeze() makes arrays of tuples
            lane=columns[1],  # type: ignore[arg-type]
            node=[0] * len(rows),  # type: ignore[arg-type]
            pid=columns[2],  # type: ignore[arg-type]
            start_ticks=columns[3],  # type: ignore[arg-type]
            nodes=(self._node,),
            local_world=columns[6],  # type: ignore[arg-type]
            task=[names.index(task) if task else UNKNOWN for task in tasks],  # type: ignore[arg-type]
            tasks=names,
        )
        world = max(columns[5], default=UNKNOWN)
        return NodeRoster(self._version, world, max(columns[4], default=0), roster, framework)

    def _beats(self, told: list[tuple[JobProcess, Told]], now_ns: int) -> Beats:
        io_bytes = self._io_by_rank()
        columns: defaultdict[str, list[float]] = defaultdict(list)
        for member, page in told:
            recorded_age_s = self._recorder.moved_age_s(member, now_ns)
            for lane in page.lanes:
                row = {
                    "step": lane.steps,
                    "step_age_s": lane.step_age_s,
                    "batch": lane.batches,
                    "calls": lane.calls,
                    "collectives": self._recorder.count(member),
                    "activity_age_s": min(lane.activity_age_s, recorded_age_s),
                    "phase": lane.phase,
                    "phase_age_s": lane.phase_age_s,
                    "tick_age_s": page.tick_age_s,
                    "state": 0 if member.stat is None else ord(member.stat.state),
                    "cpu_s": 0.0 if member.stat is None else member.stat.cpu_s,
                    "io_bytes": io_bytes.get(member.rank, UNKNOWN),
                    "has_page": int(member.page is not None),
                    "blind": len(blind_spots(member)),
                }
                for name, value in row.items():
                    columns[name].append(value)
        return Beats(**columns)  # type: ignore[arg-type]

    def _io_by_rank(self) -> dict[int, int]:
        """Bytes moved by a rank process and its loader workers together: a rank that waits for them moves with them."""
        total: dict[int, int] = {}
        for member in [*self._census.ranks(), *self._census.helpers()]:
            if not member.gone:
                total[member.rank] = total.get(member.rank, 0) + max(0, read_io_bytes(member.pid))
        return total


def _moved_ns(page: Told, now_ns: int) -> int:
    """When the page last moved; 0 if it never did."""
    return 0 if math.isinf(page.activity_age_s) else now_ns - int(page.activity_age_s * 1e9)
