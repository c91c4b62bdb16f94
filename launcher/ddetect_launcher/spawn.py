"""Start a process: the job, exactly as the shell would have, or a companion, apart from it.

Enters: words, an environment and the signal state the launcher was born with. Leaves: a pid, or the OSError of the
failed exec. `subprocess` is not used for the job because it closes descriptors that the job inherits (MPI and make
hand theirs down) and keeps our signal mask.
Never here: threads (fork is safe only without), waiting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

# What Python itself changes at its start.
_PYTHONS_OWN = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True)
class Born:
    """Signal state at the launcher's start, to be given to the job unchanged."""

    mask: frozenset[int]
    ignored: frozenset[int]


class NoProgram(Exception):
    """The program cannot be started; `exit_code` is what a shell would return."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find_program(word: str, environ: Mapping[str, str]) -> str:
    """The path a shell would run for this word. Raises NoProgram (127 not found, 126 not executable)."""
    folders = [""] if "/" in word else os.get_exec_path(dict(environ))
    candidates = [os.path.join(folder, word) for folder in folders]
    refused = ""
    for path in candidates:
        if not os.path.exists(path):
            continue
        if os.path.isdir(path):
            refused = refused or f"{path} is a directory"
        elif not os.access(path, os.X_OK):
            refused = refused or f"{path} is not executable (chmod +x it, or run it as `python {path}`)"
        else:
            return path
    if refused and ("/" in word or not refused.endswith("is a directory")):
        raise NoProgram(refused, 126)
    where = "there is no such file" if "/" in word else "it is in no folder of PATH"
    raise NoProgram(f"cannot find the program {word}: {where}", 127)


def start_job(path: str, argv: Sequence[str], environ: Mapping[str, str], born: Born) -> int:
    """Fork and exec the job: same session, group, terminal and descriptors. Raises OSError when exec fails."""
    read_end, write_end = os.pipe()  # close-on-exec: its silence tells that exec worked
    pid = os.fork()
    if pid == 0:
        _become_job(path, list(argv), dict(environ), born, write_end)
    os.close(write_end)
    try:
        answer = os.read(read_end, 16)
    finally:
        os.close(read_end)
    if answer:
        os.waitpid(pid, 0)
        raise OSError(int(answer), os.strerror(int(answer)), path)
    return pid


def _become_job(path: str, argv: list[str], environ: dict[str, str], born: Born, report: int) -> NoReturn:
    try:
        for number in (*_PYTHONS_OWN, signal.SIGINT, signal.SIGCHLD):
            ignored = number in born.ignored and number not in _PYTHONS_OWN
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, born.mask)
        try:
            os.execve(path, argv, environ)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execve("/bin/sh", ["sh", path, *argv[1:]], environ)  # a script without #!, as every shell does
    except OSError as error:
        os.write(report, str(error.errno or errno.ENOEXEC).encode())
    finally:
        os._exit(127)


def read_start_ticks(pid: int) -> int:
    """When a process began: with its pid that is who it is. 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def start_companion(argv: Sequence[str], environ: Mapping[str, str], *, log: int, lock: int) -> int:
    """Start one of ours in a session of its own, quiet, with nothing of the job's but the lock it lives under."""
    path = shutil.which(argv[0])
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    words, surroundings = list(argv), dict(environ)
    pid = os.fork()
    if pid == 0:
        _become_companion(path, words, surroundings, log, lock)
    return pid


def _become_companion(path: str, argv: list[str], environ: dict[str, str], log: int, lock: int) -> NoReturn:
    try:
        os.setsid()
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not None:
                signal.signal(number, signal.SIG_DFL)
        # Out of the way first: any of them may sit on a number that is about to be replaced.
        log, lock = (fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in (log, lock))
        null = fcntl.fcntl(os.open(os.devnull, os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 10)
        # The lock lives as long as this descriptor, so its holder is the companion itself, whoever started it.
        for descriptor, wanted in ((null, 0), (log, 1), (log, 2), (lock, 3)):
            os.dup2(descriptor, wanted, inheritable=True)
        _close_from(4)
        os.ftruncate(3, 0)
        os.pwrite(3, b"%d\n" % os.getpid(), 0)
        os.nice(5)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(path, argv, environ)
    except BaseException as error:
        os.write(2, f"cannot start {path}: {error}\n".encode())
    finally:
        os._exit(127)


def _close_from(lowest: int) -> None:
    """Close what is open; counting up to the limit takes minutes where the limit is a billion."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(lowest, 1024))
    for number in numbers:
        if number >= lowest:
            try:
                os.close(number)
            except OSError:
                pass
