"""What the kernel says about a process, read from /proc.

Enters: a pid. Leaves: values; a process that is gone or closed to us is None, "" or UNKNOWN, never an
exception.
Never here: signals, ptrace, scanning all processes more often than asked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ddetect.host.syscalls import OPENS, POLLS, name_of, restarted, takes_fd
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
    try:
        tids = sorted(
            (int(name) for name in os.listdir(f"/proc/{pid}/task")), key=lambda tid: (tid != pid, tid)
        )
    except OSError:
        return ()
    tasks = (_read_task(pid, tid) for tid in tids[:_MOST_TASKS])
    return tuple(task for task in tasks if task is not None)


def _read_task(pid: int, tid: int) -> Task | None:
    stat = read_stat(pid, tid)
    if stat is None:
        return None
    at = _path(pid, tid)
    wchan = _read(at + "/wchan").decode("utf-8", "replace").strip()
    wchan = "" if wchan == "0" else wchan
    syscall, target = _syscall(pid, _read(at + "/syscall").decode("utf-8", "replace"), wchan)
    return Task(tid, stat.name, stat.state, wchan, syscall, target)


def _syscall(pid: int, line: str, wchan: str) -> tuple[str, str]:
    """What /proc/PID/syscall means: "0 0x3 0x7f.. ..." is ("read", "/data/x")."""
    part = line.split()
    if len(part) < 4 or not part[0].isdigit():  # "running", "-1 ...", or not ours to read
        return "", ""
    name = restarted(name_of(int(part[0])), wchan)
    first, second = int(part[1], 16), int(part[2], 16)
    if name in OPENS:
        return name, _c_string(pid, second if OPENS[name] == 1 else first)
    if name in POLLS and second == 1:  # one descriptor: `struct pollfd` begins with it
        raw = _memory(pid, first, 4)
        return name, _descriptor(pid, int.from_bytes(raw, "little", signed=True)) if len(raw) == 4 else ""
    return name, _descriptor(pid, first) if takes_fd(name) else ""


def _descriptor(pid: int, number: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except (OSError, ValueError):
        return ""


def _c_string(pid: int, address: int) -> str:
    return _memory(pid, address, 256).partition(b"\0")[0].decode("utf-8", "replace")


def _memory(pid: int, address: int, size: int) -> bytes:
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size) or b""
    except (OSError, ValueError, OverflowError):
        return b""


def read_io_bytes(pid: int) -> int:
    """Bytes read and written, by system calls and on disk (some count twice); UNKNOWN when not ours to read."""
    total = 0
    for line in _read(f"/proc/{pid}/io").splitlines():
        # rchar, wchar: system calls, counted when they return; read_bytes, write_bytes: the disk, while a long
        # write or a mapped file is under way.
        if line.startswith((b"rchar", b"wchar", b"read_bytes", b"write_bytes")):
            total += int(line.partition(b":")[2])
    return total or UNKNOWN


def read_run_ns(pid: int) -> tuple[int, int]:
    """Nanoseconds on a CPU, and waiting for one; UNKNOWN where the kernel does not tell."""
    part = _read(f"/proc/{pid}/schedstat").split()
    return (int(part[0]), int(part[1])) if len(part) >= 2 else (UNKNOWN, UNKNOWN)


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


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)
