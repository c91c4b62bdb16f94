"""Which descriptors a process has open as sockets, and in which of them one of its threads is blocked.

Enters: a pid, what proc.py says about a thread. Leaves: numbers of descriptors, inodes of sockets; nothing where the
kernel refuses (it takes the rights of ptrace) or the process is gone. Never here: bytes (sockets.py); more than a
bounded number of descriptors, for a process may have a hundred thousand.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from ddetect.host.proc import Task, read_link, read_memory
from ddetect.host.syscalls import (
    EPOLLS,
    POLLFD_BYTES,
    POLLS,
    SELECTS,
    parse_bits,
    parse_pollfds,
    takes_fd,
)

_MOST_OPEN = 4096
_MOST_WAITED_FOR = 1024
_SOCKET = re.compile(r"socket:\[(\d+)\]$")
_WATCHED = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)
_MOST_FDINFO = 1 << 17


def read_open_sockets(pid: int) -> dict[int, int]:
    """The inode of each descriptor that is a socket, of the first few thousand."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            numbers = [int(entry.name) for entry in islice(entries, _MOST_OPEN)]
    except OSError:
        return {}
    found = ((number, _SOCKET.match(read_link(pid, number))) for number in numbers)
    return {number: int(socket[1]) for number, socket in found if socket is not None}


def read_blocked_in(pid: int, task: Task) -> tuple[int, ...]:
    """The descriptors that a thread waits for: the one of its call, or all that it polls."""
    if not task.args:
        return ()
    first, second = task.args[:2]
    if task.syscall in POLLS:
        return parse_pollfds(read_memory(pid, first, POLLFD_BYTES * min(second, _MOST_WAITED_FOR)))
    if task.syscall in SELECTS:
        size = (min(first, _MOST_WAITED_FOR) + 63) // 64 * 8  # whole longs
        maps = [read_memory(pid, address, size) for address in task.args[1:4] if address]
        return tuple(sorted({number for raw in maps for number in parse_bits(raw)}))
    if task.syscall in EPOLLS:
        return _watched(pid, first)
    return (first,) if takes_fd(task.syscall) else ()


def _watched(pid: int, epoll: int) -> tuple[int, ...]:
    """What an epoll descriptor watches, as the kernel lists it."""
    try:
        with open(f"/proc/{pid}/fdinfo/{epoll}", "rb") as about:
            listed = about.read(_MOST_FDINFO)
    except OSError:
        return ()
    return tuple(int(number) for number in islice(_WATCHED.findall(listed), _MOST_WAITED_FOR))
