"""The ways in which a job under `ddetect launch` ends, each done as its doer does it.

Enters: the launch as it runs. Leaves: the job and the launcher ended, and what went otherwise than such an end should.
Never here: an opinion about what ddetect says; a process that this launch did not start.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

OURS_GONE_S = 5.0  # from SIGKILL of the launcher until nothing of ddetect's runs
LAUNCHER_ENDS_S = 45.0  # from a signal to the launcher's end
STOPPED_WITHIN_S = 40.0  # for ddetect to end a job of which it has told
TORCH_TIMEOUT_S = 35.0  # instead of torch's half an hour
BY_ITSELF_S = 75.0  # for a job that dies of its timeout, or of what happened to it, with torchrun's shutdown
LOOK_EVERY_S = 0.1
INTERRUPT = b"\x03"  # what Ctrl-C types


@dataclass(frozen=True, slots=True)
class Running:
    """A launch that an end is done to; `terminal` is our side of its controlling terminal, if it has one."""

    launcher: subprocess.Popen[bytes]
    terminal: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended after all, and what should not have been."""

    by: str
    problem: str = ""
    outlived: tuple[int, ...] = ()  # pids of a job that was left as it is, until it was ended here


@dataclass(frozen=True, slots=True)
class End:
    """One way to end a job. `by_itself`: nobody does anything, so it may come before ddetect has told."""

    name: str
    do: Callable[[Running], Ended]
    launch_options: tuple[str, ...] = ()
    on_terminal: bool = False
    by_itself: bool = False


def _signalled(name: str, send: Callable[[Running], object]) -> Callable[[Running], Ended]:
    def do(run: Running) -> Ended:
        send(run)
        if _ends(run.launcher, LAUNCHER_ENDS_S):
            return Ended(name)
        return Ended(
            name, f"it had not ended {LAUNCHER_ENDS_S:.0f} s after {name}; {_standing(run.launcher)}"
        )

    return do


def _standing(launcher: subprocess.Popen[bytes]) -> str:
    """Who is still there and where, for whoever reads why a test failed."""
    told = []
    for process in [psutil.Process(launcher.pid), *psutil.Process(launcher.pid).children(recursive=True)]:
        try:
            signals = [
                line for line in _status_of(process.pid).splitlines() if line.startswith(("Sig", "Shd"))
            ]
            told.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())[:80]} {signals}")
            dump = ["py-spy", "dump", "--nonblocking", "--pid", str(process.pid)]
            told.append(subprocess.run(dump, capture_output=True, text=True, timeout=20).stdout[:1500])
        except (psutil.Error, OSError, subprocess.TimeoutExpired) as error:
            told.append(f"{process.pid} {error!r}")
    return "\n".join(told)


def _status_of(pid: int) -> str:
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return status.read()


def _press_ctrl_c(run: Running) -> None:
    assert run.terminal is not None
    os.write(run.terminal, INTERRUPT)


def _stopped(run: Running) -> Ended:
    if _ends(run.launcher, STOPPED_WITHIN_S):
        return Ended(STOP.name)
    return Ended(STOP.name, f"--on-hang stop had not ended it {STOPPED_WITHIN_S:.0f} s after the alarm")


def _waited_for(name: str) -> Callable[[Running], Ended]:
    """A job that hangs where no timeout counts is ended as any other, and counted there."""

    def do(run: Running) -> Ended:
        return Ended(name) if _ends(run.launcher, BY_ITSELF_S) else SIGTERM.do(run)

    return do


def _launcher_killed(run: Running) -> Ended:
    """What was ddetect's has to go by itself; the job stays, and is ended here by the pids noted before."""
    job, ours = family_of(run.launcher.pid)
    run.launcher.kill()
    run.launcher.wait()
    still = [_words(process) for process in wait_until_gone(ours, OURS_GONE_S)]
    late = f"{OURS_GONE_S:.0f} s after its launcher was killed there is still {still}" if still else ""
    outlived = tuple(process.pid for process in job if _lives(process))
    for process in [*(child for one in job for child in _children(one)), *job]:
        try:
            process.kill()  # psutil compares start times first
        except psutil.Error:
            pass  # it ended by itself
    return Ended(SIGKILL.name, late, outlived)


STOP = End("--on-hang stop", _stopped, launch_options=("--on-hang", "stop"))
SIGTERM = End("SIGTERM", _signalled("SIGTERM", lambda run: run.launcher.send_signal(signal.SIGTERM)))
SIGINT = End("SIGINT", _signalled("SIGINT", lambda run: run.launcher.send_signal(signal.SIGINT)))
CTRL_C = End("Ctrl-C", _signalled("Ctrl-C", _press_ctrl_c), on_terminal=True)
SIGKILL = End("SIGKILL of the launcher", _launcher_killed)
TIMEOUT = End("torch's timeout", _waited_for("torch's timeout"), by_itself=True)
ITSELF = End("by itself", _waited_for("by itself"), by_itself=True)


def family_of(launcher: int) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """What is below a launcher: the job's processes, and ddetect's own with what they started."""
    job: list[psutil.Process] = []
    ours: list[psutil.Process] = []
    for child in _children(psutil.Process(launcher), recursive=False):
        (ours if is_ours(child) else job).extend([child, *_children(child)])
    return job, ours


def is_ours(process: psutil.Process) -> bool:
    """Agent, coordinator, and the launcher's witness, which has the launcher's own command line."""
    try:
        return process.cmdline()[1:3] == ["-m", "ddetect"]
    except psutil.Error:
        return False


def wait_until_gone(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that are still there after that time."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if _lives(process)]
    while left and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
        left = [process for process in left if _lives(process)]
    return left


@contextmanager
def controlling_terminal(wanted: bool) -> Iterator[tuple[int | None, Callable[[], None]]]:
    """Our side of a new terminal, and what a child calls first: it makes the other side the one that controls it."""
    if not wanted:
        yield None, _hear_sigint
        return
    ours, theirs = os.openpty()

    def take() -> None:
        _hear_sigint()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    try:
        yield ours, take
    finally:
        os.close(theirs)
        os.close(ours)


def _hear_sigint() -> None:
    """What a shell starts in the background ignores SIGINT, and so would the job: `make test &` is no other test."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _ends(launcher: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        launcher.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _children(process: psutil.Process, *, recursive: bool = True) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=recursive)
    except psutil.Error:
        return []
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _words(process: psutil.Process) -> str:
    try:
        return f"{process.pid} ({process.status()}) {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return f"{process.pid} gone"
