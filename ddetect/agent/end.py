"""End the rank processes of this node, gently first.

Enters: members and a grace. Leaves: signals. Each process is held by a pidfd and its start time is checked,
so a pid that was given to another process is never hit.
Never here: the launcher, which is the user's and sees its ranks end.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from ddetect.agent.members import JobProcess
from ddetect.host.proc import is_alive


def end_ranks(members: list[JobProcess], grace_s: float) -> list[int]:
    """SIGTERM, wait up to `grace_s`, SIGKILL what is left; returns the pids that had to be killed. Blocks."""
    handles = {member.pid: fd for member in members if (fd := _hold(member)) is not None}
    held = [member for member in members if member.pid in handles]
    try:
        for member in held:
            _send(handles[member.pid], signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and any(is_alive(m.pid, m.start_ticks) for m in held):
            time.sleep(0.1)
        stubborn = [m.pid for m in held if is_alive(m.pid, m.start_ticks)]
        for pid in stubborn:
            _send(handles[pid], signal.SIGKILL)
        return stubborn
    finally:
        for fd in handles.values():
            os.close(fd)


def _hold(member: JobProcess) -> int | None:
    try:
        fd = os.pidfd_open(member.pid)
    except OSError:
        return None
    if is_alive(member.pid, member.start_ticks):
        return fd
    os.close(fd)
    return None


def _send(fd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass  # it ended by itself
    except OSError as error:
        print(f"ddetect agent: could not send {number.name}: {error}", file=sys.stderr)
