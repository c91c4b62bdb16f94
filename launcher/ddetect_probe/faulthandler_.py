"""The fallback where ptrace is forbidden: a signal on which C code writes this process's Python stacks to a file.

Enters: DDETECT_FAULT_SIGNAL. Leaves: RUN/fault/<pid>.fault and S_FAULT_SIGNAL in the page. Never here: a signal
that already has a handler; whoever installs one later wins, and the page then says 0.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from typing import Any, Optional, Tuple

from ddetect_probe import page, rundir, state

# USR1 and USR2 belong to Slurm, submitit, Lightning and the job; real-time signals belong to hardly anybody.
DEFAULT = 61
_file: Optional[Any] = None
_opened: Tuple[int, int] = (0, 0)  # device and inode of that file
_lost = 0  # our signal, whose descriptor is not ours any more


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
    """Register, unless the signal is somebody else's."""
    number = chosen()
    if number and not taken(number):
        _open(number)


def again_in_child() -> None:
    """A forked child inherits the handler with its parent's file: give it a file of its own."""
    number = state.slots[page.S_FAULT_SIGNAL]
    if number:
        state.slots[page.S_FAULT_SIGNAL] = 0
        parents = _file.fileno() if _file is not None and _still_ours() else -1
        _open(number)
        if parents >= 0:
            os.close(parents)


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
