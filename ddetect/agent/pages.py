"""What a page says, in the model's words.

Enters: a member with its page. Leaves: beat values and threads of its lanes, groups, rooted calls, last words, and what
it says that it does not see. Ages are differences of CLOCK_MONOTONIC, which page and agent share.
Never here: writing to a page.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace

from ddetect_probe import page as layout

from ddetect.agent.census import Departed
from ddetect.agent.members import JobProcess
from ddetect.correlate.where import whose_of
from ddetect.evidence.flight_recorder import RootedCall
from ddetect.frameworks import named_packages
from ddetect.model import UNKNOWN, UNSEEN_ERROR, Departure, Frame, Gone, Group, Phase, Raised, Role
from ddetect.model.homes import CodeHomes
from ddetect.rankset import parse_ranks
from ddetect.stacks.lanes import CalledByStep, OfLane

_UNKNOWN_HOMES = CodeHomes()
_PHASES = frozenset(int(phase) for phase in Phase)
_CALLED_FOR = {layout.INNER_DATA: int(Phase.DATA), layout.INNER_STEP: int(Phase.OTHER)}
STANDS_NS = 2_000_000_000
"""Python that a step called, and that has not come back for so long, tells which replica it is of."""


@dataclass(frozen=True, slots=True)
class ToldLane:
    """What the page says of one lane right now: who is judged, and which thread it is (0: unknown)."""

    lane: int = 0
    phase: int = int(Phase.OTHER)
    phase_age_s: float = math.inf
    steps: int = 0
    step_age_s: float = math.inf
    batches: int = 0
    calls: int = 0
    activity_age_s: float = math.inf
    ident: int = 0
    tid: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """What the page of a rank says right now, lane by lane; a rank without a page says nothing."""

    tick_age_s: float = math.inf
    joined: bool = False
    framework: str = ""  # the one that it trains with
    task: str = ""  # how its cluster calls it: "chief", "worker 1"
    lanes: tuple[ToldLane, ...] = (ToldLane(),)

    @property
    def activity_age_s(self) -> float:
        """Seconds since any of its lanes moved."""
        return min((lane.activity_age_s for lane in self.lanes), default=math.inf)


def read_told(member: JobProcess, now_ns: int) -> Told:
    """Read the page of one rank."""
    if member.page is None:
        return Told()
    header = member.page.header()
    begun_ns = max(header[layout.S_PG_NS], header[layout.S_CREATED_NS], 0)
    begins = ToldLane(phase=int(Phase.STARTING), phase_age_s=age_s(header[layout.S_CREATED_NS], now_ns))
    return Told(
        tick_age_s=age_s(header[layout.S_TICK_NS], now_ns),
        joined=header[layout.S_PG_STATE] == layout.PG_READY,
        framework=framework_of(member),
        task=task_of(member.page),
        lanes=tuple(_lane(row, begun_ns, now_ns) for row in lane_rows(member.page, now_ns))
        or (replace(begins, activity_age_s=age_s(begun_ns, now_ns)),),
    )


def _lane(row: layout.LaneRow, begun_ns: int, now_ns: int) -> ToldLane:
    moved_ns = max(row.since_ns, row.step_ns, row.batch_ns, row.call_ns, row.p2p_ns, begun_ns)
    return ToldLane(
        lane=row.lane,
        phase=row.phase if row.phase in _PHASES else int(Phase.OTHER),
        phase_age_s=age_s(row.since_ns, now_ns),
        steps=row.steps,
        step_age_s=age_s(row.step_ns, now_ns),
        batches=row.batches,
        calls=row.calls + row.p2p,
        activity_age_s=age_s(moved_ns, now_ns),
        ident=row.ident,
        tid=row.tid,
    )


def framework_of(member: JobProcess) -> str:
    """The framework that a process trains with, as its probe says; empty when nobody does."""
    told = member.page.frameworks() if member.page is not None else []
    return told[0] if told else ""


def threads_of(member: JobProcess) -> tuple[OfLane, ...]:
    """Which thread each lane of a process is."""
    rows = lane_rows(member.page, time.monotonic_ns()) if member.page is not None else []
    return tuple(OfLane(row.lane, row.ident, row.tid) for row in rows if row.ident or row.tid)


def lane_rows(page: layout.Page, now_ns: int) -> list[layout.LaneRow]:
    """The lanes of a process. In a compiled step no replica has a thread, but for Python that the step calls on one."""
    rows = page.lanes()
    if len(rows) != 1:
        return rows
    told = {
        call.lane: call
        for call in page.inner_calls()
        if call.what == layout.INNER_STEP and call.lane >= 0 and now_ns - call.since_ns > STANDS_NS
    }
    replicas = _local_replicas(page) if told else 0
    if replicas < 2 or max(told) >= replicas:
        return rows
    step = rows[0]._replace(ident=0, tid=0)  # the main thread stands for all that are not told
    return [
        step._replace(lane=lane, phase=layout.OTHER, ident=told[lane].ident, tid=told[lane].tid)
        if lane in told
        else step._replace(lane=lane)
        for lane in range(min(replicas, layout.LANES))
    ]


def called_by_step(member: JobProcess) -> tuple[CalledByStep, ...]:
    """Threads that run Python for a compiled step of this process."""
    calls = member.page.inner_calls() if member.page is not None else []
    return tuple(
        CalledByStep(_CALLED_FOR[call.what], call.ident, call.tid)
        for call in calls
        if call.what in _CALLED_FOR
    )


def task_of(page: layout.Page) -> str:
    """How the cluster of a job calls this process; empty where it has no name of its own."""
    told = page.strategy() or {}
    task, index = told.get("task"), told.get("index")
    if not isinstance(task, str) or not task or not isinstance(index, int):
        return ""
    return task if task == "chief" else f"{task} {index}"


def _local_replicas(page: layout.Page) -> int:
    replicas = (page.strategy() or {}).get("replicas")
    return replicas if isinstance(replicas, int) else 0


def blind_spots(member: JobProcess) -> list[str]:
    """What the page itself says that it does not see, as reasons: a blind watcher must not look healthy."""
    if member.page is None:
        return []
    header = member.page.header()
    found = []
    if header[layout.S_HOOKS_OFF]:
        names = ", ".join(member.page.hooks_off()) or str(header[layout.S_HOOKS_OFF])
        found.append(f"progress: hooks of the probe switched themselves off: {names}")
    if header[layout.S_GROUPS_DROPPED]:
        found.append("collectives: it is in more process groups than its page has room for")
    return found


def age_s(since_ns: int, now_ns: int) -> float:
    """Seconds since then; infinite when it never was."""
    return max(0.0, (now_ns - since_ns) / 1e9) if since_ns > 0 else math.inf


def groups_of(page: layout.Page) -> dict[int, tuple[Group, ...]]:
    """The groups of a rank by the page's number; one with two backends ("cpu:gloo,cuda:nccl") is two of ours."""
    found: dict[int, tuple[Group, ...]] = {}
    for text in page.groups():
        try:
            members = parse_ranks(text.members)
        except ValueError:
            members = ()
        backends = dict.fromkeys(part.rpartition(":")[2] for part in text.backend.split(","))
        found[text.number] = tuple(Group(backend, text.name, text.desc, members) for backend in backends)
    return found


def calls_of(page: layout.Page, groups: dict[int, tuple[Group, ...]]) -> list[RootedCall]:
    """Roots and reduce ops, by the group's own name."""
    return [
        RootedCall(call.op, groups[call.group][0].name, call.seq, call.root, call.reduce_op)
        for call in page.calls()
        if groups.get(call.group)
    ]


def fetching_of(member: JobProcess, now_ns: int) -> tuple[int, float]:
    """The dataset index a process is fetching and for how long; (-1, inf) if none. Without indices, their number."""
    if member.page is None:
        return -1, math.inf
    header = member.page.header()
    index = header[layout.S_FETCH]
    if index >= 0:
        return index, age_s(header[layout.S_FETCH_NS], now_ns)
    begun = [call.since_ns for call in member.page.inner_calls() if call.what == layout.INNER_DATA]
    return (member.page.count_inner(), age_s(max(begun), now_ns)) if begun else (-1, math.inf)


def tick_age_of(member: JobProcess, now_ns: int) -> float:
    """Seconds since the probe's thread last ran in this process; infinite without a page."""
    return math.inf if member.page is None else age_s(member.page.header()[layout.S_TICK_NS], now_ns)


def fault_signal_of(member: JobProcess) -> int:
    """The signal that makes the process write its stacks; 0 if none."""
    return 0 if member.page is None else member.page.header()[layout.S_FAULT_SIGNAL]


def raised_in(member: JobProcess, homes: CodeHomes = _UNKNOWN_HOMES) -> Raised | None:
    """The exception that nobody caught in this living process, if there was one."""
    exception, where = _last_exception(member, homes)
    if member.page is None or not exception:
        return None
    return Raised(exception, where, fatal=member.page.header()[layout.S_EXIT] == layout.RAISED)


def gone_from(departed: Departed, now_ns: int, homes: CodeHomes = _UNKNOWN_HOMES) -> Gone:
    """The last words of a process."""
    member, status = departed.member, departed.status
    exception, where = _last_exception(member, homes)
    how = _how(member, exception)
    if status is not None and os.WIFSIGNALED(status) and not _raised_itself(member):
        how, exception, where = Departure.VANISHED, "", None  # what ended one of its threads did not end it
    if status is not None and how is not Departure.RAISED:  # the kernel knows better than a missing word
        how = Departure.EXITED if status == 0 else Departure.VANISHED
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            code = os.WEXITSTATUS(status)
            unseen = (
                f"SystemExit: {code}" if member.page is not None else f"{UNSEEN_ERROR} (exit code {code})"
            )
            how, exception = Departure.RAISED, exception or unseen
    return Gone(
        member.rank,
        member.role,
        member.index,
        member.pid,
        how,
        age_s(departed.at_ns, now_ns),
        exception,
        where,
        os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0,
        os.WEXITSTATUS(status) if status is not None and os.WIFEXITED(status) else UNKNOWN,
    )


def _raised_itself(member: JobProcess) -> bool:
    """Whether an exception ended the process, and not only one of its threads."""
    return member.page is not None and member.page.header()[layout.S_EXIT] == layout.RAISED


def _how(member: JobProcess, exception: str) -> Departure:
    header = member.page.header() if member.page is not None else None
    if header is None:
        # Loader workers end with every epoch: of one without a page, and of which the kernel told nothing, think well.
        return Departure.EXITED if member.role is Role.LOADER_WORKER else Departure.VANISHED
    if header[layout.S_EXIT] == layout.EXITED:
        return Departure.EXITED  # an exception in one of its threads did not end it
    if header[layout.S_EXIT] == layout.RAISED or exception:
        return Departure.RAISED
    # multiprocessing ends its children with os._exit, past every exit hook: idle means done, busy means killed.
    idle = header[layout.S_FETCH] < 0
    return Departure.EXITED if member.role is Role.LOADER_WORKER and idle else Departure.VANISHED


def _last_exception(member: JobProcess, homes: CodeHomes = _UNKNOWN_HOMES) -> tuple[str, Frame | None]:
    told = member.page.exception() if member.page is not None else None
    if not told:
        return "", None
    message = str(told.get("message", ""))
    text = f"{told.get('type', 'Exception')}: {message}" if message else str(told.get("type", "Exception"))
    guess = _frame((told.get("function"), told.get("file"), told.get("line")))
    frames = told.get("frames")
    candidates = [_frame(frame) for frame in frames] if isinstance(frames, list) else []
    known = [frame for frame in candidates if frame is not None]
    whose = whose_of(homes, named_packages())
    # Where every one is a framework's, the probe's own guess: the innermost tells who raised.
    return text, whose.line([*known, *([guess] if guess is not None else [])]) or guess


def _frame(told: object) -> Frame | None:
    """A frame as the probe writes it: function, file, line."""
    if not isinstance(told, list | tuple) or len(told) != 3 or not told[1]:
        return None
    function, file, line = told
    return Frame(str(function or ""), str(file), line if isinstance(line, int) else 0)
