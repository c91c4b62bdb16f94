"""What the launchers of this node say about the end of the job: heard at RUN/agent.sock.

Enters: datagrams (ddetect_launcher.words). Leaves: each word once, in the order of coming, and how the launchers' own
children ended. A launcher waits for its child as soon as it dies, so the kernel may have forgotten the status when we
ask: then what the launcher told stands.
Never here: asyncio; a word that makes no sense is passed over.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ddetect_launcher.words import LONGEST, Word, parse_word
from ddetect_probe import rundir

from ddetect.agent.deaths import Death, Key

_KNOWN = 256  # words that are remembered, to know one that is said again


class Launchers:
    """The agent's end. Without a socket (a path too long, a read-only folder) nothing is heard, and it says so once."""

    def __init__(self, run_dir: str) -> None:
        self.ended: dict[Key, Death] = {}
        self._known: deque[tuple[int, int]] = deque(maxlen=_KNOWN)
        self._new: list[Word] = []
        self._path = os.path.join(run_dir, rundir.AGENT_SOCKET)
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        unfinished = f"{self._path}.{os.getpid()}"
        try:
            self._socket.bind(unfinished)
            os.chmod(unfinished, rundir.FILE_MODE)
            os.replace(unfinished, self._path)  # an agent before us may have left one
        except OSError as error:
            self._socket.close()
            self._socket = None
            print(f"ddetect agent: cannot listen to the launcher: {error}", file=sys.stderr, flush=True)

    def fileno(self) -> int:
        """Readable when there is something to hear; -1 when we cannot."""
        return self._socket.fileno() if self._socket is not None else -1

    def hear(self) -> bool:
        """Read what has come; True when there was something new in it. Never waits."""
        before = len(self._new)
        while self._socket is not None:
            try:
                raw = self._socket.recv(LONGEST)
            except OSError:
                break
            word = parse_word(raw)
            if word is not None:
                self._take(word)
        return len(self._new) > before

    def take(self) -> list[Word]:
        """What is new since the last time."""
        self.hear()
        new, self._new = self._new, []
        return new

    def close(self) -> None:
        """Stop listening. The socket's file stays: the next agent replaces it, the launcher removes the folder."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, word: Word) -> None:
        now_ns = time.monotonic_ns()
        if word.launcher:
            if (word.launcher, word.at_ns) in self._known:
                return
            self._known.append((word.launcher, word.at_ns))
        if not 0 < word.at_ns <= now_ns:
            word = replace(word, at_ns=now_ns)  # a sidecar need not know our clock
        self._new.append(word)
        if word.status is not None:
            self.ended[word.pid, word.start_ticks] = Death(word.at_ns, word.status)


class KnownDeaths(Mapping[Key, Death]):
    """Deaths as the kernel told them, and the status from the launcher where the kernel did not."""

    def __init__(self, seen: Mapping[Key, Death], told: Mapping[Key, Death]) -> None:
        self._seen, self._told = seen, told

    def __getitem__(self, key: Key) -> Death:
        seen, told = self._seen.get(key), self._told.get(key)
        if seen is None:
            return self._told[key]
        return seen if seen.status is not None or told is None else replace(seen, status=told.status)

    def __iter__(self) -> Iterator[Key]:
        return iter({**self._seen, **self._told})

    def __len__(self) -> int:
        return len({**self._seen, **self._told})
