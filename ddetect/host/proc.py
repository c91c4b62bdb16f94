"""What the kernel says about a process, read from /proc.

Enters: a pid. Leaves: values; a process that is gone or closed to us is None, "" or UNKNOWN, never an
exception.
Never here: signals, ptrace, scanning all processes more often than asked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ddetect.host.syscalls import OPENS, POLLFD_BYTES, POLLS, name_of, parse_pollfds, restarted, takes_fd
from ddetect.model import UNKNOWN

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_TASKS = 512


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of /proc/PID/stat: `state` is R S D T t Z X I."""

    name: str
    state: str
    parent: int
    cpu_s: float
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Task:
    """One thread as the kernel sees it."""

    tid: int
    name: str
    state: str
    wchan: str = ""
    syscall: str = ""
    target: str = ""
    args: tuple[int, ...] = ()  # of the system call, as many as there may be


def read_stat(pid: int, tid: int | None = None) -> Stat | None:
    """The state of a process (or of one of its threads); None when it is gone."""
    return parse_stat(_read(_path(pid, tid) + "/stat"))


def parse_stat(raw: bytes) -> Stat | None:
    """Read a stat line. The name is in brackets and may itself hold brackets and spaces."""
    head, bracket, tail = raw.rpartition(b")")
    field = tail.split()
    if not bracket or len(field) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    cpu_s = (int(field[11]) + int(field[12])) / _TICKS_PER_S
    return Stat(name, field[0].decode(), int(field[1]), cpu_s, int(field[19]))


def read_exit_status(pid: int, start_ticks: int) -> int | None:
    """How a zombie ended, as wait() would tell its parent; None when it was waited for already, or still lives."""
    field = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(field) < 50 or field[0] not in (b"Z", b"X") or int(field[19]) != start_ticks:
        return None
    return int(field[49])


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether this very process runs: a zombie has ended, and a pid may have been given to another."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and stat.state not in "ZX"


def read_tasks(pid: int) -> tuple[Task, ...]:
    """All threads with what they sleep in, the main one first; empty when the process is gone."""
    tasks = (read_task(pid, tid) for tid in read_tids(pid)[:_MOST_TASKS])
    return tuple(task for task in tasks if task is not None)


def read_tids(pid: int) -> list[int]:
    """The numbers of all threads, the main one first; empty when the process is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")), key=lambda tid: (tid != pid, tid))
    except OSError:
        return []


def read_task(pid: int, tid: int) -> Task | None:
    """One thread with what it sleeps in; None when it is gone."""
    stat = read_stat(pid, tid)
    if stat is None:
        return None
    at = _path(pid, tid)
    wchan = _read(at + "/wchan").decode("utf-8", "replace").strip()
    wchan = "" if wchan == "0" else wchan
    syscall, args = parse_syscall(_read(at + "/syscall").decode("utf-8", "replace"), wchan)
    target = _target(pid, syscall, args) if syscall else ""
    return Task(tid, stat.name, stat.state, wchan, syscall, target, args)


def parse_syscall(line: str, wchan: str) -> tuple[str, tuple[int, ...]]:
    """What /proc/PID/syscall means: "0 0x3 0x7f.. ..." is ("read", (3, 0x7f..)); ("", ()) where it tells nothing."""
    part = line.split()
    if len(part) < 4 or not part[0].isdigit():  # "running", "-1 ...", or not ours to read
        return "", ()
    return restarted(name_of(int(part[0])), wchan), tuple(int(arg, 16) for arg in part[1:7])


def _target(pid: int, name: str, args: tuple[int, ...]) -> str:
    """What a system call is about: a path, or what its one descriptor is."""
    first, second = args[:2]
    if name in OPENS:
        return _c_string(pid, second if OPENS[name] == 1 else first)
    if name in POLLS and second == 1:
        return "".join(read_link(pid, one) for one in parse_pollfds(read_memory(pid, first, POLLFD_BYTES)))
    return read_link(pid, first) if takes_fd(name) else ""


def read_link(pid: int, descriptor: int) -> str:
    """What a descriptor is: "/data/x", "socket:[4711]"; empty when it is closed or not ours to read."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except (OSError, ValueError):
        return ""


def _c_string(pid: int, address: int) -> str:
    return read_memory(pid, address, 256).partition(b"\0")[0].decode("utf-8", "replace")


def read_memory(pid: int, address: int, size: int) -> bytes:
    """What stands at an address of a process; fewer bytes, or none, where we may not read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size) or b""
    except (OSError, ValueError, OverflowError):
        return b""


def read_io_bytes(pid: int, tid: int | None = None) -> int:
    """Bytes read and written, by system calls and on disk (some count twice); UNKNOWN when not ours to read."""
    total = 0
    lines = _read(_path(pid, tid) + "/io", small=True).splitlines()
    for line in lines:
        # rchar, wchar: system calls, counted when they return; read_bytes, write_bytes: the disk, while a long
        # write or a mapped file is under way.
        if line.startswith((b"rchar", b"wchar", b"read_bytes", b"write_bytes")):
            total += int(line.partition(b":")[2])
    return total if lines else UNKNOWN


def read_run_ns(pid: int) -> tuple[int, int]:
    """Nanoseconds on a CPU, and waiting for one; UNKNOWN where the kernel does not tell."""
    part = _read(f"/proc/{pid}/schedstat").split()
    return (int(part[0]), int(part[1])) if len(part) >= 2 else (UNKNOWN, UNKNOWN)


def read_runs(pid: int, tid: int) -> tuple[int, int]:
    """Of a thread: nanoseconds on a CPU, and how often it was put on one; UNKNOWN where the kernel does not tell."""
    part = _read(f"/proc/{pid}/task/{tid}/schedstat", small=True).split()
    return (int(part[0]), int(part[2])) if len(part) >= 3 else (UNKNOWN, UNKNOWN)


def read_name(pid: int, tid: int) -> str:
    """The kernel's name of a thread, of 15 characters at most; empty when it is gone."""
    return _read(f"/proc/{pid}/task/{tid}/comm", small=True).decode("utf-8", "replace").rstrip("\n")


def session_of(pid: int) -> int:
    """The session of a process; 0 when it is gone, or not ours to ask."""
    try:
        return os.getsid(pid) if pid > 0 else 0
    except OSError:
        return 0


def read_environ(pid: int) -> dict[str, str]:
    """The environment the process was started with; empty when it is gone or not ours to read."""
    pairs = (item.partition(b"=") for item in _read(f"/proc/{pid}/environ").split(b"\0") if item)
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, _, value in pairs}


def read_cmdline(pid: int) -> tuple[str, ...]:
    """The command line; empty for a zombie, a kernel thread or a process that is gone."""
    raw = _read(f"/proc/{pid}/cmdline").rstrip(b"\0")
    return tuple(part.decode("utf-8", "replace") for part in raw.split(b"\0")) if raw else ()


def read_status(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status by name: Uid, CapEff, SigCgt, TracerPid."""
    lines = _read(f"/proc/{pid}/status").decode("utf-8", "replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def read_pids() -> list[int]:
    """Every process there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _path(pid: int, tid: int | None) -> str:
    return f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"


def _read(path: str, *, small: bool = False) -> bytes:
    """A file of the kernel's; one that is `small` is whole in the first piece, and read for every thread there is."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if small:
            return os.read(handle, 1024)
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)
