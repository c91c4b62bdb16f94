"""What dies of what: torch's errors that only follow from another rank's fault, and those that tell of a dead worker.

A closed or late connection is a peer's doing only where torch says so. S3, a database or a logger hang up every day,
and that is a first fault of the rank that raised it. Enters: an exception's text and where it was raised. Never here:
who is named (ddetect.correlate).
"""

from __future__ import annotations

import re
from functools import lru_cache

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
_DOES_NOT_FIT = re.compile(
    r"op\.preamble\.length <= op\.nbytes|data size doesn't match expected size|distributed collective mismatch",
    re.IGNORECASE,
)
"""What gloo says when a peer sent more than this rank asked for; it aborts the receiver, who may be all right."""
_IN_TORCH = re.compile(r"/torch/distributed/(?!checkpoint/)")
_LOADER_DEATH = re.compile(r"DataLoader worker \(pid\(?s?\)?\s*([\d, ]+)\)")


@lru_cache(maxsize=4096)  # thousands of ranks die with the same few words
def tells_of_a_peer(exception: str, file: str = "") -> bool:
    """Whether torch says that a peer went or did not come; `file` is where it was raised."""
    if _BARE.match(exception):
        return True
    in_torch = _IN_TORCH.search(file) is not None
    return _CONSEQUENCE.search(exception) is not None and (
        in_torch or _OF_TORCH.search(exception) is not None
    )


def saw_a_death(exception: str) -> bool:
    """Whether a consequence is one that only a peer's death makes; a refused or late connection needs none."""
    return _SAW_A_DEATH.search(exception) is not None


def refuses_calls(exception: str) -> bool:
    """Whether ranks called what does not fit together, and gloo noticed."""
    return _DOES_NOT_FIT.search(exception) is not None


def lost_workers(exception: str) -> tuple[int, ...]:
    """The pids of the loader workers whose death this error tells."""
    said = _LOADER_DEATH.search(exception)
    return tuple(int(pid) for pid in re.findall(r"\d+", said[1])) if said is not None else ()
