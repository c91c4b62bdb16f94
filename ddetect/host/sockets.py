"""How many bytes each TCP socket of this host has moved: asked of the kernel by netlink (sock_diag), all in one go.

Enters: nothing. Leaves: `Sockets`, counters by inode; empty where the kernel refuses. /proc/PID/io does not count what
`send` and `recv` move. UDP and unix sockets have no such counters. Those of another network namespace are not in it.
Never here: an exception; more sockets, or more time, than the limits below; whose socket it is (descriptors.py).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_SOCKETS = 20_000
"""A host with more has them for something else: then what is missing is said, and a look is not held up."""
WITHIN_S = 0.25

_SOCK_DIAG, _BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3
_INFO = 2  # INET_DIAG_INFO: `struct tcp_info`
# Established and both ways of half closed: the others have moved nothing yet, or have no owner any more.
_STATES = sum(1 << state for state in (1, 4, 5, 8))
_HEAD = struct.Struct("=IHHII")  # struct nlmsghdr
_ASK = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2
_INODE = struct.Struct("=I")
_ATTRIBUTE = struct.Struct("=HH")
_MOVED = struct.Struct("=QQ")  # tcpi_bytes_acked, tcpi_bytes_received
_INODE_AT, _MESSAGE_SIZE, _MOVED_AT = 68, 72, 120
_BUFFER = 1 << 16


@dataclass(frozen=True, slots=True)
class Sockets:
    """By inode, the bytes that its peer has got and those that it has got from its peer, together.

    Where it is not `complete`, a socket that is not in it may be there all the same.
    """

    moved: Mapping[int, int] = field(default_factory=dict)
    complete: bool = False


def read_sockets(most: int = MOST_SOCKETS, within_s: float = WITHIN_S) -> Sockets:
    """Ask for all TCP sockets of this network namespace."""
    moved: dict[int, int] = {}
    deadline = time.monotonic() + within_s
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            for number, family in enumerate((socket.AF_INET, socket.AF_INET6), 1):
                ask = _ASK.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES)
                kernel.send(_HEAD.pack(_HEAD.size + len(ask), _BY_FAMILY, _REQUEST_DUMP, number, 0) + ask)
                while not _hear(kernel, deadline, moved):
                    if len(moved) > most:
                        return Sockets(moved)
    except (OSError, struct.error, AttributeError):  # refused, too slow, or no Linux
        return Sockets(moved)
    return Sockets(moved, complete=len(moved) <= most)


def _hear(kernel: socket.socket, deadline: float, moved: dict[int, int]) -> bool:
    """Take one answer; whether it was the last. Raises OSError when the kernel refuses or takes too long."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    kernel.settimeout(left_s)
    last = parse_answer(kernel.recv(_BUFFER), moved)
    if last == _ERROR:
        raise OSError("the kernel tells nothing of its sockets")
    return last == _DONE


def parse_answer(data: bytes, moved: dict[int, int]) -> int:
    """Add the counters of one answer, by inode; a socket without an owner has none. Returns what its last part is."""
    at, kind, most = 0, _ERROR, len(data)
    while at + _HEAD.size <= most:
        size, kind = _HEAD.unpack_from(data, at)[:2]
        begin, end = at + _HEAD.size, min(at + size, most)
        if kind == _BY_FAMILY and end - begin >= _MESSAGE_SIZE:
            (inode,) = _INODE.unpack_from(data, begin + _INODE_AT)
            info = _attribute(data, begin + _MESSAGE_SIZE, end) if inode else None
            if info is not None:
                sent, received = _MOVED.unpack_from(data, info + _MOVED_AT)
                moved[inode] = sent + received
        elif kind in (_ERROR, _DONE):
            break
        at += max(_HEAD.size, (size + 3) & ~3)
    return kind


def _attribute(data: bytes, at: int, end: int) -> int | None:
    """Where a `struct tcp_info` begins that is long enough; an older kernel's has no counters."""
    while at + _ATTRIBUTE.size <= end:
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _INFO:
            begin = at + _ATTRIBUTE.size
            return begin if begin + _MOVED_AT + _MOVED.size <= min(at + size, end) else None
        at += max(_ATTRIBUTE.size, (size + 3) & ~3)
    return None
