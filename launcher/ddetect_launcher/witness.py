"""Tells whether a signal was sent to our whole process group or to the launcher alone.

The job is in the launcher's group, so a signal to the group (a shell's hang-up, `timeout`, mpirun, `kill -- -PGID`)
has reached the job already and must not be forwarded: twice is not once for a program that shuts down on the first.
siginfo does not tell the two apart. So a tiny process of ours sits in the group with every signal blocked; if the
signal is pending there too, the group got it.
Never here: the job. A witness that is gone answers "launcher alone", which is the usual case.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from typing import NoReturn

_DELIVERY_S = 0.01  # a group is signalled member by member
_ANSWER_S = 1.0  # on a busy machine it may have to wait for a core; one that is gone is noticed at once


class Witness:
    """The launcher's side. Made before any lock is opened: a forked holder of members.lock would keep it alive."""

    def __init__(self) -> None:
        """Fork the witness; signals must be blocked already."""
        self._ours, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._ours.close()  # or the line never closes
            _watch(theirs)
        theirs.close()
        self._owed = 0  # answers that have not come yet; a late one must not be taken for the next one's
        self._answer = select.poll()  # select() fails for a descriptor above 1023
        self._answer.register(self._ours, select.POLLIN)

    def group_got(self, number: int) -> bool:
        """Whether the whole group was sent this signal since the last question about it."""
        time.sleep(_DELIVERY_S)
        try:
            self._ours.send(bytes([number]))
            self._owed += 1
            answer = b""
            while self._owed:
                if not self._answer.poll(_ANSWER_S * 1000):
                    return False
                answer = self._ours.recv(1)
                if not answer:
                    return False
                self._owed -= 1
            return answer == b"1"
        except OSError:
            return False

    def close(self) -> None:
        """Dismiss it. (When the launcher is killed it ends because its line to us closes.)"""
        self._ours.close()
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


def _watch(line: socket.socket) -> NoReturn:
    try:
        # Out of the way first: where stdout was closed, the line may sit on its number.
        line = socket.socket(fileno=fcntl.fcntl(line.detach(), fcntl.F_DUPFD_CLOEXEC, 3))
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)  # whoever reads the job's output waits for its last writer
        asked_about = signal.valid_signals()  # any other number would be the end of us
        signal.pthread_sigmask(signal.SIG_BLOCK, asked_about)
        while True:
            question = line.recv(1)
            if not question:
                break
            # Without a timeout: with one it may tell of a signal that never came (inbox.py).
            seen = question[0] in asked_about and signal.sigtimedwait([question[0]], 0) is not None
            line.send(b"1" if seen else b"0")
    finally:
        os._exit(0)
