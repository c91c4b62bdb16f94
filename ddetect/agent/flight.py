"""Ask a rank's Flight Recorder, through torch's own C++ server on a unix socket: no GIL, no Python in the rank.

Enters: a rank member. Leaves: its Digest, or the reason why there is none. One request in flight per rank:
whoever comes second waits for a turn. A rank that did not answer is left alone for a while, because each
unanswered request may hold a thread of its server.
Never here: `dump_traceback` or any other handler that needs the GIL.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from dataclasses import dataclass

from ddetect_probe import rundir

from ddetect.agent.members import JobProcess
from ddetect.agent.pages import calls_of, groups_of
from ddetect.evidence.flight_recorder import Digest, digest
from ddetect.host.proc import is_alive, read_stat

TIMEOUT_S = 2.0
_TURN_S = 1.0  # with the question itself no longer than evidence is waited for
_LEAVE_ALONE_S = 5.0
_GLOO, _NCCL = "fr_trace_json", "dump_nccl_trace_json"


@dataclass(frozen=True, slots=True)
class Flight:
    """One rank's answer. No digest and no reason: the rank has no recorder yet (torch is not up)."""

    digest: Digest | None = None
    reason: str = ""


class FlightReader:
    """Keeps one conversation per rank process."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._turns: dict[tuple[int, int], threading.Lock] = {}
        self._silent_until: dict[tuple[int, int], float] = {}
        self._handlers: dict[tuple[int, int], frozenset[str]] = {}

    def read(self, member: JobProcess) -> Flight:
        """Ask one rank. Never raises; at most about TIMEOUT_S for each of its recorders, after those before us."""
        path = rundir.socket_path(self._run_dir, member.pid)
        if not os.path.exists(path):
            return Flight()
        # The beat's slow poll and evidence may meet: a recorder that is only busy with us is not a silent one.
        turn = self._turns.setdefault(member.key, threading.Lock())
        if not turn.acquire(timeout=_TURN_S):
            return Flight(reason="its Flight Recorder has not answered the question before")
        try:
            why_not = self._why_not(member)
            return Flight(reason=why_not) if why_not else Flight(self._ask(member, path))
        except (OSError, http.client.HTTPException) as error:
            self._silent_until[member.key] = time.monotonic() + _LEAVE_ALONE_S
            return Flight(reason=f"its Flight Recorder did not answer ({_short(error)})")
        except ValueError as error:
            return Flight(reason=f"its Flight Recorder's answer is unreadable: {error}")
        finally:
            turn.release()

    def _why_not(self, member: JobProcess) -> str:
        # A forked child keeps the dead rank's socket open: connecting would succeed, and nobody would answer.
        if not is_alive(member.pid, member.start_ticks):
            return "its process is gone"
        stat = read_stat(member.pid)
        if stat is not None and stat.state in "Tt":
            return "its process is stopped, so its Flight Recorder cannot answer"
        if time.monotonic() < self._silent_until.get(member.key, 0.0):
            return "its Flight Recorder did not answer a moment ago"
        return ""

    def _ask(self, member: JobProcess, path: str) -> Digest:
        if member.key not in self._handlers:
            self._handlers[member.key] = parse_handlers(_request(path, "GET", "/handler/"))
        groups = groups_of(member.page) if member.page is not None else {}
        calls = calls_of(member.page, groups) if member.page is not None else []
        known = [group for several in groups.values() for group in several]
        told: list[Digest] = []
        for handler in (_GLOO, _NCCL):
            if handler in self._handlers[member.key]:
                dump = json.loads(_request(path, "POST", f"/handler/{handler}"))
                ours = [group for group in known if (group.backend == "nccl") == (handler == _NCCL)]
                told.append(
                    digest(dump, rank=member.rank, groups=ours, calls=calls, now_unix_ns=time.time_ns())
                )
        if not told:
            raise ValueError("this torch has no Flight Recorder handler")
        return Digest(
            member.rank, tuple(g for one in told for g in one.groups), any(one.wrapped for one in told)
        )


def parse_handlers(text: bytes) -> frozenset[str]:
    """The names in the list of handlers; a list we cannot read is taken to hold the common one."""
    try:
        names = json.loads(text)
    except ValueError:
        return frozenset({_GLOO})
    return frozenset(str(name) for name in names) if isinstance(names, list) else frozenset({_GLOO})


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("rank", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _request(path: str, method: str, url: str) -> bytes:
    connection = _UnixConnection(path)
    try:
        connection.request(method, url, headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise http.client.HTTPException(f"HTTP {answer.status}")
        return body
    finally:
        connection.close()


def _short(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"{TIMEOUT_S:.0f} s"
    return str(error) or type(error).__name__
