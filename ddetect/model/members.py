"""Who is judged: the members of the job, and how each is.

A member is a rank, or one of the lanes (replicas) that share a rank's process. Enters: nothing. Leaves: tables with a
row per member. Never here: what its process looks like (sightings.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NewType

from ddetect.model.tables import UNKNOWN, Floats, Ints, Table, floats, ints, values

Rank = NewType("Rank", int)


class Role(IntEnum):
    """What a process is to its rank."""

    OTHER = 0
    RANK = 1
    LOADER_WORKER = 2
    CHILD = 3


class Phase(IntEnum):
    """What a member says it is doing; OTHER is the user's own code between the hooks."""

    OTHER = 0
    STARTING = 1  # before init_process_group
    JOINING = 2  # inside init_process_group
    DATA = 3  # inside DataLoader.__next__
    OPTIMIZER = 4
    COLLECTIVE = 5  # inside a call that others take part in, or waiting for its work handle
    P2P = 6
    PAUSED = 7  # the user said so: ddetect_probe.pause("eval")
    LEAVING = 8  # inside destroy_process_group
    EXITING = 9  # the interpreter is shutting down
    STEP = 10  # inside a compiled step: it computes, waits for data or for others, and Python sees none of it
    TRACING = 11  # building the graph of such a step


@dataclass(frozen=True, eq=False)
class Roster(Table):
    """Who there is: one row per member (torch: a rank, with the one lane 0). Sent when it changes."""

    rank: Ints = ints()
    lane: Ints = ints(fill=0)
    node: Ints = ints(into="nodes")
    pid: Ints = ints()
    start_ticks: Ints = ints()  # with pid: the identity of a process
    nodes: tuple[str, ...] = values(str)
    # How many ranks its node should have, as it was told; else UNKNOWN.
    local_world: Ints = ints(fill=UNKNOWN)
    # How its cluster calls it, where that is another name than its rank.
    task: Ints = ints(into="tasks", optional=True, fill=UNKNOWN)
    tasks: tuple[str, ...] = values(str)


@dataclass(frozen=True, eq=False)
class Beats(Table):
    """How every member is, row for row with its Roster. Ages: clocks of two hosts are never compared."""

    step: Ints = ints()  # optimizer steps done
    step_age_s: Floats = floats(age=True)  # since the last one; inf if none
    batch: Ints = ints()
    calls: Ints = ints()  # operations with others that were begun, from Python
    # Completed, from the Flight Recorder when it was asked.
    collectives: Ints = ints()
    activity_age_s: Floats = floats(age=True)  # since any counter moved
    phase: Ints = ints()  # Phase
    phase_age_s: Floats = floats(age=True)
    # Since the probe's thread last ran; inf without a page.
    tick_age_s: Floats = floats(age=True)
    state: Ints = ints()  # ord() of the /proc state; 0 when the process is gone
    cpu_s: Floats = floats()
    io_bytes: Ints = ints()
    has_page: Ints = ints()
    blind: Ints = ints(
        fill=0
    )  # what the probe itself says that it does not see: hooks that are off, groups left out


@dataclass(frozen=True, slots=True)
class Unread:
    """Ranks about which something could not be learned; `reason` is shown to the user."""

    ranks: tuple[int, ...]
    reason: str
    node: str = ""  # whose agent was lost from sight; empty for any other reason
    silent_s: float | None = None  # how long that agent was not heard: a node that fell silent is a lead
