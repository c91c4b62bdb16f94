"""What reads one process: its page, torch's Flight Recorder; later files from elsewhere.

Enters: a process of the job. Leaves: a `Reading`: what it does with others, as the same value whoever tells it, or the
reason why there is none. A new source is one class with this interface, and one more argument of the sampler.
Never here: stacks (ddetect.stacks), more than one process at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ddetect_probe.page import SeqRow

from ddetect.agent.flight import FlightReader
from ddetect.agent.members import JobProcess
from ddetect.agent.pages import age_s, framework_of, groups_of
from ddetect.evidence.flight_tables import CommsBuilder
from ddetect.model import Comms


@dataclass(frozen=True, eq=False)
class Reading:
    """What one source tells of one process. Neither rows nor a reason: it has nothing to tell, which is well."""

    comms: Comms = field(default_factory=Comms)
    unread: str = ""  # why there is nothing, for the user


class Source(Protocol):
    """Reads one process at a time, from several threads at once."""

    what: str  # what is missing when it cannot be read: "collectives"
    waits: bool  # whether it may have to wait for the process; else it is read in no time
    of: str  # the framework whose processes it reads; empty: anybody's

    def read(self, process: JobProcess) -> Reading:
        """Look now. Never raises for a process that is stopped, gone or silent; bounded in time."""
        ...


def sources_of(member: JobProcess, sources: Sequence[Source]) -> list[Source]:
    """Those that can tell something of this process."""
    framework = framework_of(member)
    return [one for one in sources if not one.of or not framework or one.of == framework]


class FlightRecorderSource:
    """Collectives, from torch's recorder: how far each group has come, and what is open."""

    what = "collectives"
    waits = True
    of = "torch"

    def __init__(self, reader: FlightReader) -> None:
        self._reader = reader

    def read(self, process: JobProcess) -> Reading:
        """Ask torch's own server."""
        told = self._reader.read(process)
        if told.digest is None:
            return Reading(unread=told.reason)
        builder = CommsBuilder()
        builder.add_digest(told.digest)
        return Reading(builder.build(), told.reason)


class PageSource:
    """Groups, what the recorder does not see (open sends, receives and monitored barriers), and numbers of steps."""

    what = "progress"
    waits = False
    of = ""

    def read(self, process: JobProcess) -> Reading:
        """Read the page, which needs no help of the process."""
        if process.page is None:
            return Reading()
        builder, now_ns = CommsBuilder(), time.monotonic_ns()
        groups = groups_of(process.page)
        builder.add_groups(group for several in groups.values() for group in several)
        for op in process.page.open_ops():
            group = groups.get(op.group, (None,))[0]
            age = age_s(op.since_ns, now_ns)
            builder.add_p2p(process.rank, op.kind, op.peer, op.tag, group, op.waiting, age)
        for number, (enqueued, completed, oldest_open) in numbers_of(process.page.sequences()).items():
            for group in groups.get(number, ())[:1]:
                builder.add_progress(process.rank, group, enqueued, completed, oldest_open)
        return Reading(builder.build())


def numbers_of(rows: Iterable[SeqRow]) -> dict[int, tuple[int, int, int]]:
    """Per group the numbers of a process: highest begun, highest done, lowest open. Its devices begin a step as one."""
    by_group: dict[int, list[SeqRow]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    return {
        group: (
            max(row.enqueued for row in several),
            min(row.completed for row in several),
            min((row.oldest_open for row in several if row.oldest_open), default=0),
        )
        for group, several in by_group.items()
    }
