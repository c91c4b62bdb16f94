"""Which deaths only follow from another: by what they say, or because the launcher ended the rest.

A closed or late connection is a peer's doing only where torch says so. S3, a database or a logger hang up every day,
and that is a first fault of the rank that raised it. Never here: who is named (fault.py, unseen.py).
"""

from __future__ import annotations

import re

from ddetect.correlate.scene import Scene
from ddetect.model import Departure, Gone

_CONSEQUENCE = re.compile(
    r"connection (was )?closed by peer|connection reset by peer|broken pipe|socket closed|remote process exit"
    r"|timed out waiting|pair closure|watchdog caught|ncclremoteerror|nccl communicator was aborted"
    r"|connection refused|connectfullmesh failed|failed to recv|recvvalue\w* failed|monitoredbarrier"
    r"|wait timeout|socket timeout|socket (has |\S+ )?timed out|waiting for clients|store.based.barrier"
    r"|(?<!re)store\b.*(closed|timeout)",
    re.IGNORECASE | re.DOTALL,
)
_OF_TORCH = re.compile(
    r"gloo|c10d|ProcessGroup|[nrhx]ccl|\b(TCP|Prefix|File|Hash)Store|\bDist(Network|Backend|Store)?Error"
    r"|connectFullMesh|monitoredBarrier|recvValue|store.based.barrier|pair closure"
    r"|\b(pair|buffer|unbound_buffer|context|device|socket|listener|loop|address)\.cc:\d+"
    r"|timed out waiting \d+ ?ms for (a )?(send|recv)",
    re.IGNORECASE,
)
"""Marks of torch, gloo and NCCL in an error. Not the bare word "store": there are object stores and feature stores."""
_BARE = re.compile(
    r"RuntimeError: (Connection closed by peer\b|(Connection reset by peer|Broken pipe|Socket Timeout)\.?\s*$)"
)
"""What torch's C++ raises without a mark. Python's own errors are no RuntimeError, and carry an errno."""
_INTERRUPTED = re.compile(r"KeyboardInterrupt\b")
_SAW_A_DEATH = re.compile(
    r"closed by peer|connection reset by peer|broken pipe|socket closed|remote process exit", re.IGNORECASE
)
"""Of the consequences, those that only a peer's death makes; a refused or late connection needs none."""
_IN_TORCH = re.compile(r"/torch/distributed/(?!checkpoint/)")
ENDED_BY_LAUNCHER = 15
SEEN_LATE_S = 1.5
"""A process that vanished is seen only when the agent next looks; an exception wrote its own time."""


def is_consequence(gone: Gone) -> bool:
    """Whether this death only follows from another rank's, or from a user's wish."""
    if gone.how is not Departure.RAISED:
        return False
    text = gone.exception
    if _INTERRUPTED.match(text) or _BARE.match(text):
        return True
    in_torch = gone.where is not None and _IN_TORCH.search(gone.where.file) is not None
    return _CONSEQUENCE.search(text) is not None and (in_torch or _OF_TORCH.search(text) is not None)


def saw_a_death(gone: Gone) -> bool:
    """Whether this rank died because a connection was closed at the other end."""
    return is_consequence(gone) and _SAW_A_DEATH.search(gone.exception) is not None


def follows(gone: Gone, deaths: list[Gone]) -> bool:
    """Whether this death follows from another: by what it says, or because the launcher ended the rest.

    Who got SIGTERM after another rank had raised was ended for it. Unless that rank saw a peer die: then only a death
    that came later than we may be late in noticing it is excused.
    """
    if gone.how is Departure.VANISHED and gone.signal == ENDED_BY_LAUNCHER:
        raised = [one for one in deaths if one.how is Departure.RAISED]
        return any(one.age_s > gone.age_s + (SEEN_LATE_S if saw_a_death(one) else 0.0) for one in raised)
    return is_consequence(gone)


def deaths_of(scene: Scene) -> list[Gone]:
    """Ranks that ended as they should not."""
    return [gone for gone in scene.gone_ranks.values() if gone.how is not Departure.EXITED]
