"""What dies of what: TensorFlow's errors that only follow from another task's fault.

The coordination service tells every task of a peer that stopped sending heartbeats, in the same words whether that peer
was killed, is stopped or ended in peace; a task that lost its leader reads of a closed connection. A cloud file system
hangs up too, and that is a first fault: so a mark of collectives or of the coordination service is asked for.
Enters: an exception's text and where it was raised. Never here: who is named (ddetect.correlate).
"""

from __future__ import annotations

import re
from functools import lru_cache

_OF_A_PEER = re.compile(
    r"stopped sending heartbeats|heartbeat timeout|already-in-error task|tasks? (are|is) unhealthy"
    r"|connection reset by peer|connection refused|socket closed|broken pipe|end of tcp stream|goaway"
    r"|failed to connect to all addresses|peer (task )?.*(restarted|not healthy|unavailable)|deadline exceeded"
    r"|collective has timed out|timed out waiting for|barrier timed out|rpc aborted|was cancelled|recvmsg"
    r"|shutdown barrier|coordination service.*(stopped|shut|error)",
    re.IGNORECASE | re.DOTALL,
)
_OF_COLLECTIVES = re.compile(
    r"collective ops is aborted|CollectiveReduce|Collective(Gather|Bcast|Assign)\w*|collective_ops|coordination"
    r"|Error reported from /job:|remote target /job:|CoordinationService|RecvBufAsync|GrpcRemoteWorker"
    r"|check_collective_ops_peer_health|Collective has timed out",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"Collective instance \d+ expected|Shape mismatch in the collective instance|another member in the group expected",
    re.IGNORECASE,
)
_SAW_A_DEATH = re.compile(
    r"stopped sending heartbeats|heartbeat timeout|reset by peer|socket closed|broken pipe|end of tcp stream"
    r"|connection refused",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def tells_of_a_peer(exception: str, file: str = "") -> bool:
    """Whether TensorFlow says that a peer went or did not come."""
    if refuses_calls(exception):
        return False
    return _OF_A_PEER.search(exception) is not None and _OF_COLLECTIVES.search(exception) is not None


def refuses_calls(exception: str) -> bool:
    """Whether it says that tasks called collectives that do not fit together."""
    return _REFUSED.search(exception) is not None


def saw_a_death(exception: str) -> bool:
    """Whether a consequence is one that a peer's end makes. One that is only late makes none of these."""
    return _SAW_A_DEATH.search(exception) is not None
