"""The names of the system calls a process can be stuck in.

Enters: a number, as /proc/PID/syscall gives it. Leaves: a name, and what its arguments are.
Never here: /proc.
"""

from __future__ import annotations

import platform
import struct

_X86_64 = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll",
    9: "mmap", 11: "munmap", 16: "ioctl", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev",
    21: "access", 23: "select", 24: "sched_yield", 26: "msync", 28: "madvise", 34: "pause",
    35: "nanosleep", 40: "sendfile", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom",
    46: "sendmsg", 47: "recvmsg", 56: "clone", 57: "fork", 58: "vfork", 59: "execve", 60: "exit",
    61: "wait4", 65: "semop", 69: "msgsnd", 70: "msgrcv", 72: "fcntl", 73: "flock", 74: "fsync",
    75: "fdatasync", 76: "truncate", 77: "ftruncate", 78: "getdents", 82: "rename", 83: "mkdir",
    84: "rmdir", 87: "unlink", 128: "rt_sigtimedwait", 130: "rt_sigsuspend", 162: "sync",
    202: "futex", 208: "io_getevents", 217: "getdents64", 219: "restart_syscall", 220: "semtimedop",
    230: "clock_nanosleep", 231: "exit_group", 232: "epoll_wait", 247: "waitid", 257: "openat",
    262: "newfstatat", 263: "unlinkat", 264: "renameat", 270: "pselect6", 271: "ppoll",
    275: "splice", 277: "sync_file_range", 281: "epoll_pwait", 285: "fallocate", 288: "accept4",
    295: "preadv", 296: "pwritev", 299: "recvmmsg", 306: "syncfs", 307: "sendmmsg", 332: "statx",
    426: "io_uring_enter", 435: "clone3", 437: "openat2", 441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_AARCH64 = {
    4: "io_getevents", 22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock", 34: "mkdirat",
    35: "unlinkat", 38: "renameat", 45: "truncate", 46: "ftruncate", 47: "fallocate", 56: "openat",
    57: "close", 61: "getdents64", 63: "read", 64: "write", 65: "readv", 66: "writev",
    67: "pread64", 68: "pwrite64", 69: "preadv", 70: "pwritev", 71: "sendfile", 72: "pselect6",
    73: "ppoll", 76: "splice", 79: "newfstatat", 80: "fstat", 81: "sync", 82: "fsync",
    83: "fdatasync", 84: "sync_file_range", 93: "exit", 94: "exit_group", 95: "waitid", 98: "futex",
    101: "nanosleep", 115: "clock_nanosleep", 124: "sched_yield", 128: "restart_syscall",
    133: "rt_sigsuspend", 137: "rt_sigtimedwait", 188: "msgrcv", 189: "msgsnd", 192: "semtimedop",
    193: "semop", 202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg",
    212: "recvmsg", 215: "munmap", 220: "clone", 221: "execve", 222: "mmap", 227: "msync",
    233: "madvise", 242: "accept4", 243: "recvmmsg", 260: "wait4", 267: "syncfs", 269: "sendmmsg",
    276: "renameat2", 291: "statx", 426: "io_uring_enter", 435: "clone3", 437: "openat2",
    441: "epoll_pwait2", 449: "futex_waitv",
}  # fmt: skip
_NAMES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_TAKES_FD = frozenset({
    "read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "close",
    "fstat", "fcntl", "flock", "fsync", "fdatasync", "ftruncate", "fallocate", "sync_file_range",
    "syncfs", "getdents", "getdents64", "ioctl", "sendfile", "splice", "connect", "accept",
    "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "epoll_wait",
    "epoll_pwait", "epoll_pwait2", "io_uring_enter",
})  # fmt: skip
OPENS = {
    "open": 0,
    "openat": 1,
    "openat2": 1,
    "newfstatat": 1,
    "statx": 1,
    "stat": 0,
    "lstat": 0,
    "unlinkat": 1,
}
"""Calls that take a path, and which argument it is."""
POLLS = frozenset({"poll", "ppoll"})
SELECTS = frozenset({"select", "pselect6"})
EPOLLS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
POLLFD_BYTES = 8
"""Of one `struct pollfd`, which begins with the descriptor."""

# A tracer's pause turns a timed sleep into `restart_syscall`; the kernel function still tells what it was.
_BY_WCHAN = (
    ("nanosleep", "clock_nanosleep"),
    ("futex", "futex"),
    ("epoll", "epoll_wait"),
    ("poll", "poll"),
    ("select", "select"),
)


def name_of(number: int, machine: str | None = None) -> str:
    """The name of a system call on this machine; "syscall 999" for one we have no name for."""
    return _NAMES.get(machine or platform.machine(), {}).get(number, f"syscall {number}")


def restarted(name: str, wchan: str) -> str:
    """What `restart_syscall` resumes."""
    if name != "restart_syscall":
        return name
    return next((real for part, real in _BY_WCHAN if part in wchan), name)


def parse_pollfds(raw: bytes) -> tuple[int, ...]:
    """The descriptors in an array of `struct pollfd`; a negative one is passed over by the kernel too."""
    count = len(raw) // POLLFD_BYTES
    numbers = struct.unpack(f"={count * 2}i", raw[: count * POLLFD_BYTES])[::2]
    return tuple(number for number in numbers if number >= 0)


def parse_bits(raw: bytes) -> tuple[int, ...]:
    """The descriptors in a bit map of `select`: longs, in the order of their bytes on our little-endian machines."""
    return tuple(8 * at + bit for at, byte in enumerate(raw) if byte for bit in range(8) if byte >> bit & 1)


def takes_fd(name: str) -> bool:
    """Whether the first argument is a file descriptor."""
    return name in _TAKES_FD
