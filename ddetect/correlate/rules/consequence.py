"""Which deaths only follow from another: by what they say, because the launcher ended the rest, or as somebody asked.

A closed or late connection is a peer's doing only where torch says so. S3, a database or a logger hang up every day,
and that is a first fault of the rank that raised it. Never here: who is named (fault.py, unseen.py).
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Sequence
from functools import lru_cache

from ddetect.correlate.scene import Scene
from ddetect.model import Departure, Gone, Raised, Role

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
_SAW_A_DEATH = re.compile(
    r"closed by peer|connection reset by peer|broken pipe|socket closed|remote process exit", re.IGNORECASE
)
"""Of the consequences, those that only a peer's death makes; a refused or late connection needs none."""
_IN_TORCH = re.compile(r"/torch/distributed/(?!checkpoint/)")
ENDED_BY_LAUNCHER = int(signal.SIGTERM)
SEEN_LATE_S = 1.5
"""A process that vanished is seen only when the agent next looks; an exception wrote its own time."""
_ASKED = re.compile(r"(?:[\w.]+\.)?(KeyboardInterrupt|SignalException)\b")
_ASKED_BY = int(signal.SIGINT)
"""Endings that somebody asked for, by their word or by their signal: the only list of them."""


def asks_to_end(exception: str) -> bool:
    """Whether these last words tell of somebody's wish."""
    return _ASKED.match(exception) is not None


def was_asked(gone: Gone) -> bool:
    """Whether somebody wanted this process to end. Not SIGTERM: a launcher ends the peers of a fault with it."""
    if gone.how is Departure.RAISED:
        return asks_to_end(gone.exception)
    return gone.how is Departure.VANISHED and gone.signal == _ASKED_BY


def is_consequence(gone: Gone) -> bool:
    """Whether this death only follows from another rank's, or from a user's wish."""
    if gone.how is not Departure.RAISED:
        return was_asked(gone)
    return asks_to_end(gone.exception) or tells_of_a_peer(
        gone.exception, gone.where.file if gone.where is not None else ""
    )


@lru_cache(maxsize=4096)  # thousands of ranks die with the same few words
def tells_of_a_peer(exception: str, file: str = "") -> bool:
    """Whether torch says that a peer went or did not come; `file` is where it was raised."""
    if _BARE.match(exception):
        return True
    in_torch = _IN_TORCH.search(file) is not None
    return _CONSEQUENCE.search(exception) is not None and (
        in_torch or _OF_TORCH.search(exception) is not None
    )


def saw_a_death(gone: Gone) -> bool:
    """Whether this rank died because a connection was closed at the other end."""
    return is_consequence(gone) and _SAW_A_DEATH.search(gone.exception) is not None


def origins(deaths: Sequence[Gone]) -> list[Gone]:
    """Those that follow from no other: not by what they say, and not because the launcher ended the rest.

    Who got SIGTERM after another rank had raised was ended for it. Unless that rank saw a peer die: then only a death
    that came later than we may be late in noticing it is excused.
    """
    ended_since = max(
        (
            one.age_s - (SEEN_LATE_S if saw_a_death(one) else 0.0)
            for one in deaths
            if one.how is Departure.RAISED
        ),
        default=-math.inf,
    )
    return [
        gone
        for gone in deaths
        if not is_consequence(gone) and not (is_ended_by_launcher(gone) and ended_since > gone.age_s)
    ]


def is_ended_by_launcher(gone: Gone) -> bool:
    """Whether it died as a launcher ends ranks."""
    return gone.how is Departure.VANISHED and gone.signal == ENDED_BY_LAUNCHER


def deaths_of(scene: Scene) -> list[Gone]:
    """Ranks that ended as they should not."""
    return [gone for gone in scene.gone_ranks.values() if gone.how is not Departure.EXITED]


def last_words(scene: Scene) -> dict[int, Raised]:
    """What ranks raised that are still on their way out. It ends them: the newest look need not show it."""
    found: dict[int, Raised] = {}
    for sample in scene.snapshot.samples:
        for number, sighting in enumerate(sample.sightings):
            raised = sighting.raised
            if raised is not None and raised.fatal:
                rows = (sample.sighting == number) & (sample.role == Role.RANK) & (sample.rank >= 0)
                found.update((rank, raised) for rank in sample.rank[rows].tolist())
    return {rank: raised for rank, raised in found.items() if rank not in scene.gone_ranks}
