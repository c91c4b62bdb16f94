"""What an agent and the coordinator say to each other, as values.

Agent to coordinator: Hello once per connection, NodeRoster when it changes, NodeBeat each second, NodeGone
when a process ended, JobEnds before the deaths that it explains, Evidence and RanksEnded when asked. Coordinator to
agent: TakeEvidence, EndRanks.
Never here: protobuf (ddetect.wire turns these into bytes and back).
"""

from __future__ import annotations

from dataclasses import dataclass

from ddetect.model import Beats, Gone, Look, Roster


@dataclass(frozen=True, slots=True)
class Hello:
    """First words on a stream. The agent says it again, with all it knows, after every reconnect."""

    node: str
    job: str


@dataclass(frozen=True, slots=True)
class NodeRoster:
    """The rank processes of one node (roster.nodes has one name). Replaces the one before."""

    version: int
    world_size: int
    restart: int
    roster: Roster
    framework: str = ""  # what its ranks train with, as their probes say; empty when nobody does


@dataclass(frozen=True, slots=True)
class NodeBeat:
    """How the rank processes of one node are, row for row with the NodeRoster of that version."""

    roster_version: int
    beats: Beats


@dataclass(frozen=True, slots=True)
class NodeGone:
    """Processes of one node that ended since the last message."""

    gone: tuple[Gone, ...]


@dataclass(frozen=True, slots=True)
class JobEnds:
    """The launcher of this node has passed a signal on to its job, or its job has ended with an exit code.

    Said before the NodeGone of the deaths that it explains, and again after every reconnect: twice means no more
    than once. `age_s` tells how long ago it was, for a job may well outlive a signal.
    """

    signal: int = 0
    exit_code: int | None = None  # as a shell would return it: 128+N when signal N ended the job
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One instant of one node, as it was asked for."""

    request: int
    look: Look


@dataclass(frozen=True, slots=True)
class TakeEvidence:
    """Look at every process of the node now; native stacks only of the pids named.

    A `light` look costs the job nothing and tells less: one stack for all ranks that wait alike, of other processes
    what the kernel says, and nothing that a rank would have to answer.
    """

    request: int
    native_pids: tuple[int, ...] = ()
    light: bool = False


@dataclass(frozen=True, slots=True)
class EndRanks:
    """Stop the rank processes (not their launcher): SIGTERM, then SIGKILL after `grace_s`.

    Before that those that are `waiting` are asked to raise the `sentence`, where their framework can do so.
    """

    grace_s: float
    sentence: str = ""
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RanksEnded:
    """What came of EndRanks on one node: the pids that SIGKILL had to end, and by name and pid those that remain."""

    killed: tuple[int, ...] = ()
    alive: tuple[str, ...] = ()  # what would not die: "pid 12 (python, D)"
    left: tuple[
        str, ...
    ] = ()  # descendants in a session of their own, not ours to end: "pid 13 (wandb-core)"


FromAgent = Hello | NodeRoster | NodeBeat | NodeGone | JobEnds | Evidence | RanksEnded
ToAgent = TakeEvidence | EndRanks
