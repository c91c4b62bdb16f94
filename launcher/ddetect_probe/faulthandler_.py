"""C code that writes this process's Python stacks to a file: on a signal, where ptrace is forbidden; and when a fatal
signal (SIGABRT, SIGSEGV) ends it, which no Python sees.

Enters: DDETECT_FAULT_SIGNAL; 0 switches both off. Leaves: RUN/fault/<pid>.fault and S_FAULT_SIGNAL in the page. Never
here: a signal that already has a handler; whoever installs one later wins, and the page then says 0. What the job asks
of faulthandler itself is as without us: its enable() takes the fatal signals over, and until then it is not enabled.
"""

from __future__ import annotations

import faulthandler
import functools
import os
import signal
import sys
from typing import Any, Optional, Tuple

from ddetect_probe import page, rundir, state

# USR1 and USR2 belong to Slurm, submitit, Lightning and the job; real-time signals belong to hardly anybody.
DEFAULT = 61
_file: Optional[Any] = None
_opened: Tuple[int, int] = (0, 0)  # device and inode of that file
_lost = 0  # our signal, whose descriptor is not ours any more
_FATAL = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
_fatal_file: Optional[Any] = None  # the same file for fatal signals; nobody holds it but us and faulthandler
_references_alone = 0
_enable, _disable, _is_enabled = faulthandler.enable, faulthandler.disable, faulthandler.is_enabled


def chosen() -> int:
    """The signal to use, by number or name; 0 for none."""
    wanted = os.environ.get("DDETECT_FAULT_SIGNAL", str(DEFAULT)).strip().upper()
    if wanted.isdigit():
        number = int(wanted)
    else:
        number = int(getattr(signal, wanted if wanted.startswith("SIG") else "SIG" + wanted, 0))
    return number if 0 < number < signal.NSIG and number not in (signal.SIGKILL, signal.SIGSTOP) else 0


def taken(number: int) -> bool:
    """Whether somebody already catches, ignores or blocks the signal, in Python or in C."""
    bit = 1 << (number - 1)
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith((b"SigCgt:", b"SigIgn:", b"SigBlk:")) and int(line.split()[1], 16) & bit:
                    return True
    except (OSError, ValueError, IndexError):
        return True
    return signal.getsignal(number) not in (signal.SIG_DFL, None)


def register() -> None:
    """Register, unless the signal is somebody else's; and write down fatal signals, unless somebody else does."""
    number = chosen()
    if not number:
        return
    if not taken(number):
        _open(number)
    if _file is not None and not _is_enabled() and not any(map(taken, _FATAL)):
        _take_fatal()
        _hide_ours()


def again_in_child() -> None:
    """A forked child inherits the handlers with its parent's file: give it a file of its own."""
    number = state.slots[page.S_FAULT_SIGNAL]
    if number:
        state.slots[page.S_FAULT_SIGNAL] = 0
        parents = _file.fileno() if _file is not None and _still_ours() else -1
        _open(number)
        if _fatal_are_ours():
            if state.slots[page.S_FAULT_SIGNAL]:
                _take_fatal()
            else:
                _give_up_fatal()
        if parents >= 0:
            os.close(parents)
    else:
        _give_up_fatal()  # the file is its parent's


def _take_fatal() -> None:
    """Have fatal signals written down; the signal then ends the process as it would have."""
    global _fatal_file, _references_alone
    assert _file is not None
    _fatal_file = os.fdopen(_file.fileno(), "wb", buffering=0, closefd=False)
    _references_alone = sys.getrefcount(_fatal_file)
    _enable(file=_fatal_file, all_threads=True)


def _fatal_are_ours() -> bool:
    """Whether fatal signals still write to our file: faulthandler lets go of it when the job gives it another."""
    return _fatal_file is not None and _is_enabled() and sys.getrefcount(_fatal_file) > _references_alone


def _give_up_fatal() -> None:
    if _fatal_are_ours():
        _disable()


def _hide_ours() -> None:
    """Let the job hear from faulthandler what it would hear without us: many enable it only where nobody has."""

    def is_enabled() -> bool:
        return _is_enabled() and not _fatal_are_ours()

    def disable() -> bool:
        ours = _fatal_are_ours()
        return bool(_disable()) and not ours

    faulthandler.is_enabled = functools.update_wrapper(is_enabled, _is_enabled)
    faulthandler.disable = functools.update_wrapper(disable, _disable)  # type: ignore[assignment]  # it does return whether it was


def withdraw_if_replaced() -> None:
    """Say 0 once the user has a handler of their own on our signal, or a file of their own on our descriptor."""
    global _lost
    number = state.slots[page.S_FAULT_SIGNAL]
    if _lost:  # one tick later: unregistered, a signal that the agent has just sent would end the job
        faulthandler.unregister(_lost)
        _lost = 0
    elif number and signal.getsignal(number) not in (signal.SIG_DFL, None):
        state.slots[page.S_FAULT_SIGNAL] = 0
    elif number and not _still_ours():
        state.slots[page.S_FAULT_SIGNAL] = 0
        _lost = number
    if not _still_ours():
        _give_up_fatal()


def _still_ours() -> bool:
    """A job that makes itself a daemon closes all descriptors, and its next file gets our number."""
    try:
        found = os.fstat(_file.fileno()) if _file is not None else None
    except OSError:
        return False
    return found is not None and (found.st_dev, found.st_ino) == _opened


def _open(number: int) -> None:
    global _file, _opened
    path = rundir.fault_path(state.run_dir, os.getpid())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o660)
    except OSError:
        if _file is not None:  # do not write into the parent's file
            faulthandler.unregister(number)
        return
    # Never closed by us: by then the number may be a file of the job's.
    file = os.fdopen(handle, "wb", buffering=0, closefd=False)
    faulthandler.register(number, file=file, all_threads=True, chain=False)
    found = os.fstat(handle)
    _file, _opened = file, (found.st_dev, found.st_ino)
    state.slots[page.S_FAULT_SIGNAL] = number
