"""End the rank processes of this node, gently first.

Enters: members and a grace. Leaves: letters to those that can raise them, then signals. Each process is held by a
pidfd and its start time is checked, so a pid that was given to another process is never hit.
Never here: the launcher, which is the user's and sees its ranks end.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from ddetect_probe import page as layout

from ddetect.agent.members import JobProcess
from ddetect.host.proc import is_alive

RAISES_WITHIN_S = 3.0
"""What a rank gets to raise its letter and to leave: the tick that reads it, the abort, a traceback, exit handlers."""
_LOOK_EVERY_S = 0.1


def ask_to_raise(members: list[JobProcess], pages: str, sentence: str, within_s: float) -> list[int]:
    """Leave each of them a letter, and wait until they are gone; returns the pids that are not. Blocks.

    A rank that waits inside its framework runs no handler of a signal. Its probe takes the sentence out of the mailbox
    and has the framework raise it where the rank waits: then it is in the user's traceback.
    """
    asked = [member for member in members if _leave_letter(member, pages, f"abort {sentence}")]
    return _wait_for(asked, within_s)


def _leave_letter(member: JobProcess, pages: str, letter: str) -> bool:
    try:
        layout.write_mail(os.path.join(pages, layout.page_name(member.pid, member.start_ticks)), letter)
    except OSError as error:
        print(f"ddetect agent: could not write to rank {member.rank}: {error}", file=sys.stderr)
        return False
    return True


def _wait_for(members: list[JobProcess], within_s: float) -> list[int]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and any(is_alive(m.pid, m.start_ticks) for m in members):
        time.sleep(_LOOK_EVERY_S)
    return [m.pid for m in members if is_alive(m.pid, m.start_ticks)]


def end_ranks(members: list[JobProcess], grace_s: float) -> list[int]:
    """SIGTERM, wait up to `grace_s`, SIGKILL what is left; returns the pids that had to be killed. Blocks."""
    handles = {member.pid: fd for member in members if (fd := _hold(member)) is not None}
    held = [member for member in members if member.pid in handles]
    try:
        for member in held:
            _send(handles[member.pid], signal.SIGTERM)
        stubborn = _wait_for(held, grace_s)
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
