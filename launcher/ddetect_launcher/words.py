"""What a launcher tells the agent of its node about the end of its job: a datagram each, to RUN/agent.sock.

Enters: a signal that is about to be passed on, the wait status of the launcher's own child, the exit code when the last
job of the node has ended. Leaves: small JSON. Each word carries who said it and when (CLOCK_MONOTONIC), so it may be
heard twice and means no more than once: all words are said again with every new one, and now and then until the job
is over, because the agent may be starting again just now. A sidecar may say the same: {"signal": 15} is a word.
Never here: waiting. A socket that is missing or full takes nothing and costs nothing.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace

from ddetect_probe import rundir

LONGEST = 4096
_KEPT = 8  # words said again; somebody may send a deaf job a signal each second
_FIRST_GAP_S, _LONGEST_GAP_S = 0.5, 8.0


@dataclass(frozen=True)
class Word:
    """One of: `signal` is passed on; the child `pid` (of that start time) ended with wait `status`; `exit_code`."""

    launcher: int = 0  # the pid of who says it; 0: somebody else, who says it once
    at_ns: int = 0
    signal: int = 0
    exit_code: int | None = None
    pid: int = 0
    start_ticks: int = 0
    status: int | None = None


def format_word(word: Word) -> bytes:
    """As it goes into a datagram."""
    return json.dumps({key: value for key, value in asdict(word).items() if value is not None}).encode()


def parse_word(raw: bytes) -> Word | None:
    """What a datagram says; None when that is nothing we know."""
    try:
        said = json.loads(raw)
        known = {field.name for field in fields(Word)}
        word = Word(**{key: _number(value) for key, value in said.items() if key in known})
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
    tells = word.signal > 0 or word.exit_code is not None or (word.pid > 0 and word.status is not None)
    return word if tells else None


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no number")
    return value


class Line:
    """To the agent of this node, whether it listens or not."""

    def __init__(self, run_dir: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is sent yet. Raises OSError when there is no descriptor left."""
        self._path = os.path.join(run_dir, rundir.AGENT_SOCKET)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._said: deque[Word] = deque(maxlen=_KEPT)
        self._clock = clock
        self._gap_s = _FIRST_GAP_S
        self._again_at = 0.0

    def passes_on(self, number: int) -> None:
        """A signal is about to reach the job, by our hand or another's."""
        self._say(Word(signal=number))

    def child_ended(self, pid: int, start_ticks: int, status: int) -> None:
        """The launcher has waited for its child: nobody else can know the status any more."""
        self._say(Word(pid=pid, start_ticks=start_ticks, status=status))

    def job_ended(self, exit_code: int) -> None:
        """No launcher of this node has a job any more; this is what the last one returned."""
        self._say(Word(exit_code=exit_code))

    def repeat(self, *, now: bool = False) -> None:
        """Say all again if it is time: an agent that was starting when it was said has not heard it."""
        if self._said and (now or self._clock() >= self._again_at):
            self._send_all()
            self._again_at = self._clock() + self._gap_s
            self._gap_s = min(2 * self._gap_s, _LONGEST_GAP_S)

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()

    def _say(self, word: Word) -> None:
        self._said.append(replace(word, launcher=os.getpid(), at_ns=time.monotonic_ns()))
        self._send_all()  # in their order: what explains a death before the exit that came of it
        self._gap_s = _FIRST_GAP_S
        self._again_at = self._clock() + self._gap_s

    def _send_all(self) -> None:
        for word in self._said:
            try:
                self._socket.sendto(format_word(word), self._path)
            except OSError:
                return  # nobody is there, or it has more to read than it can: the next time
