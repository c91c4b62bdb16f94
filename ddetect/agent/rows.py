"""What was seen of each process, as the tables of a look.

Enters: processes, and row for row `Looked`. Leaves: Sample, Efforts, and what stayed unread. Always complete in rows:
what could not be read is a row with a reason. Never here: looking.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from ddetect.agent.members import JobProcess
from ddetect.agent.meter import Metered
from ddetect.agent.pages import blind_spots, fetching_of, tick_age_of
from ddetect.agent.sources import Reading
from ddetect.evidence.flight_tables import CommsBuilder
from ddetect.host.proc import session_of
from ddetect.model import (
    UNKNOWN,
    CallSpec,
    Comms,
    Efforts,
    P2PKind,
    Role,
    Sample,
    Sighting,
    Unread,
)
from ddetect.model.homes import CodeHomes
from ddetect.stacks.calls import DistCall
from ddetect.stacks.dump import Dump

_PID = re.compile(r"\bpid \d+\b")


@dataclass(frozen=True, slots=True)
class Looked:
    """One process at one instant."""

    sighting: Sighting
    cpu_s: float = 0.0
    io_bytes: int = UNKNOWN
    call: DistCall | None = None  # where no page tells it
    on_gpu: bool = False  # a rank that holds a GPU open; its loader workers only inherit that
    homes: CodeHomes = field(default_factory=CodeHomes)  # where no page tells them
    metered: Metered = field(default_factory=Metered)


def gone(pid: int) -> Looked:
    """A process that is not there any more."""
    return Looked(Sighting("gone", unread=f"pid {pid} is gone"))


def result_of(future: Future[Looked]) -> Looked:
    """What came of looking at one process, in time or not."""
    if not future.done():
        return Looked(Sighting("", unread="the process could not be looked at in time"))
    error = future.exception()
    if error is not None:
        return Looked(Sighting("", unread=f"looking at the process failed: {error!r}"))
    return future.result()


def call_in(dump: Dump) -> DistCall | None:
    """The call that a process is in: of its main thread, or of the first other one, for a job may train there."""
    return next((one.call for one in dump.seen if one.call is not None), None)


def role_of(member: JobProcess, sighting: Sighting, worker_loops: Sequence[re.Pattern[str]]) -> Role:
    """A child without a page is a loader worker when its stack says so."""
    stack = sighting.main.stack if member.role is Role.CHILD and sighting.main is not None else ()
    loops = any(loop.search(f"{frame.file}:{frame.function}") for loop in worker_loops for frame in stack)
    return Role.LOADER_WORKER if loops else member.role


def sample_of(
    members: Sequence[JobProcess], looked: Sequence[Looked], roles: Sequence[Role], busy: Mapping[int, float]
) -> Sample:
    """A row for each process, equal sightings once."""
    now_ns = time.monotonic_ns()
    numbers: dict[Sighting, int] = {}
    columns: defaultdict[str, list[float]] = defaultdict(list)
    sessions = {session_of(member.pid) for member in members if member.role is Role.RANK} | {0}
    for member, look, role in zip(members, looked, roles, strict=True):
        fetching, fetch_age_s = fetching_of(member, now_ns)
        row = {
            "rank": member.rank,
            "role": role,
            "index": member.index,
            "pid": member.pid,
            "sighting": numbers.setdefault(look.sighting, len(numbers)),
            "fetching": fetching,
            "fetch_age_s": fetch_age_s,
            "cpu_s": look.cpu_s,
            "io_bytes": look.io_bytes,
            "tick_age_s": tick_age_of(member, now_ns),
            "gpu_busy": busy.get(member.pid, UNKNOWN if look.on_gpu else math.nan),
            "metered_s": look.metered.length_s,
            "moved_bytes": look.metered.moved_bytes,
            "own_session": int(role is Role.CHILD and session_of(member.pid) not in sessions),
        }
        for name, value in row.items():
            columns[name].append(value)
    return Sample(**columns, sightings=tuple(numbers))  # type: ignore[arg-type]  # freeze() makes arrays


def efforts_of(members: Sequence[JobProcess], looked: Sequence[Looked]) -> Efforts:
    """A row for each thread that did anything."""
    columns: defaultdict[str, list[float]] = defaultdict(list)
    for member, look in zip(members, looked, strict=True):
        for effort in look.metered.efforts:
            row = {"rank": member.rank, "pid": member.pid, **effort._asdict()}
            for name, value in row.items():
                columns[name].append(value)
    return Efforts(**columns)  # type: ignore[arg-type]


def comms_of_call(rank: int, call: DistCall) -> Comms:
    """A call that only the stack shows: its group is known if it is the default one, its sequence number never is."""
    builder = CommsBuilder()
    group = call.group
    if not call.is_p2p:
        builder.add_call(rank, group, CallSpec(call.op, root=call.peer))
    elif call.op == "send":
        builder.add_p2p(rank, P2PKind.SEND, call.peer, call.tag, group, True, 0.0)
    else:
        kind = P2PKind.RECV_ANY if call.peer == UNKNOWN else P2PKind.RECV
        builder.add_p2p(rank, kind, call.peer, call.tag, group, True, 0.0)
    return builder.build()


def unread_of(
    members: Sequence[JobProcess],
    looked: Sequence[Looked],
    readings: Mapping[tuple[tuple[int, int], str], Reading],
    *,
    probes: bool,
) -> tuple[Unread, ...]:
    """What is missing, ranks with the same reason together. A child that is not Python misses nothing."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for member, look in zip(members, looked, strict=True):
        if look.sighting.unread and member.role is not Role.CHILD and not member.gone:
            what = "stack" if member.role is Role.RANK else "a loader worker's stack"
            ranks[f"{what}: {_PID.sub('the process', look.sighting.unread)}"].add(member.rank)
        if probes and member.role is Role.RANK and member.page is None:
            ranks["progress: the probe is not loaded in its process"].add(member.rank)
        if member.role is Role.RANK and not member.gone:
            for reason in blind_spots(member):
                ranks[reason].add(member.rank)
    rank_of = {member.key: member.rank for member in members}
    for (key, what), reading in readings.items():
        if reading.unread:
            ranks[f"{what}: {reading.unread}"].add(rank_of[key])
    return tuple(Unread(tuple(sorted(members)), reason) for reason, members in ranks.items())
