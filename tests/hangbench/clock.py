"""When a job last moved, seen from outside by nobody's tool: the voluntary context switches of its ranks' threads.

A rank that steps sleeps, waits for its peers and wakes again many times a second, in whatever thread it trains; one
that hangs does not. A job that hangs before its ranks ever met moved last when all but one of them fell asleep. Enters:
the pid of a launcher. Leaves: unix seconds, exact to about LOOK_EVERY_S. Never here: an opinion about who is at fault.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

LOOK_EVERY_S = 0.2
MOVES = 3  # switches between two looks; a poll of a queue every few seconds is not progress
# Of another thread than the main one: torch's server has one without a name that wakes every 100 ms, and once more for
# each stack that is read.
MOVES_BESIDE = 6
FIND_EVERY = 5  # looks between two searches for ranks
ASLEEP_S = 2.0  # a rank of which no thread was never seen runnable for that long waits for something
NEVER_MET_S = 10.0  # at the start the last rank to import torch lets the others wait for seconds
# These threads wake by themselves: gloo's loop a hundred times a second, gRPC's timers, TensorFlow's pools.
OF_A_LIBRARY = ("gloo_", "pt_", "event_engine", "grpc_", "lifeguard", "tf_", "collective_ops")
TENSORFLOW_CODE = b"libtensorflow_cc"


@dataclass(frozen=True, slots=True)
class _Task:
    """One thread of a rank, as the kernel shows it."""

    tid: int
    at_work: bool
    switches: int


class ProgressClock:
    """Watches from a thread of its own until it is stopped."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ranks: dict[int, int] = {}
        self._one_process = False
        self._switches: dict[int, dict[int, int]] = {}  # pid -> thread -> how often it gave way
        self._asleep_since: dict[int, float] = {}
        self._over = threading.Event()
        self._moves: list[float] = []
        self.ranks_seen = 0
        self.attempts = 0  # sets of ranks that had nobody in common with the one before
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    @property
    def last_progress(self) -> float | None:
        """When the job last moved."""
        return self._moves[-1] if self._moves else None

    def last_before(self, moment: float) -> float | None:
        """When it last moved before a moment: a job that is ended moves once more."""
        return max((move for move in self._moves if move <= moment), default=None)

    def still_for(self) -> float:
        """Seconds since the job last moved; 0 while it has never done so."""
        return time.time() - self._moves[-1] if self._moves else 0.0

    def all_but_one_wait(self) -> bool:
        """Whether at most one rank is at work. While torch is imported all are, and switch as rarely as in a hang."""
        return self._rest_for() >= ASLEEP_S

    def _rest_for(self) -> float:
        """Seconds for which all ranks but one have been asleep."""
        asleep = self._asleep_since.copy()
        since = sorted(asleep[pid] for pid in self.ranks if pid in asleep)
        needed = max(self.ranks_seen - 1, 1)
        return time.monotonic() - since[needed - 1] if len(since) >= needed else 0.0

    @property
    def ranks(self) -> dict[int, int]:
        """pid -> rank, as last found."""
        return dict(self._ranks)

    def _run(self) -> None:
        look = 0
        while not self._over.wait(LOOK_EVERY_S):
            if look % FIND_EVERY == 0:
                self._find()
            look += 1
            moved = [pid for pid in self._ranks if self._has_moved(pid)]
            # A job moves together. One rank that moves alone polls, or is the one that everybody waits for; it may be
            # the only one that was ever started. But a job of one process has nobody else.
            if len(moved) >= (1 if self._one_process else 2):
                self._moves.append(time.time())
            elif not self._moves and (rest_s := self._rest_for()) >= NEVER_MET_S:
                self._moves.append(time.time() - rest_s)

    def _find(self) -> None:
        found = ranks_under(self._pid)
        if not found:
            found = _without_ranks(self._pid)
            self._one_process = bool(found)
        if not found:
            return
        if not found.keys() & self._ranks.keys():
            self.attempts += 1
        self._ranks = found
        self.ranks_seen = max(self.ranks_seen, len(found))

    def _has_moved(self, pid: int) -> bool:
        tasks = list(_tasks_of(pid))
        if not tasks:
            return False
        if any(task.at_work for task in tasks):
            self._asleep_since.pop(pid, None)
        else:
            self._asleep_since.setdefault(pid, time.monotonic())
        before = self._switches.get(pid, {})
        self._switches[pid] = {task.tid: task.switches for task in tasks}
        return any(
            task.switches - before.get(task.tid, task.switches)
            >= (MOVES if task.tid == pid else MOVES_BESIDE)
            for task in tasks
        )


def _tasks_of(pid: int) -> Iterator[_Task]:
    """The threads of a process that may be its user's."""
    try:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return
    for tid in tids:
        try:
            with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8", errors="replace") as file:
                told = dict(line.split(":", 1) for line in file.read().splitlines() if ":" in line)
        except OSError:
            continue  # it has ended
        if tid == pid or not told["Name"].strip().startswith(OF_A_LIBRARY):
            at_work = told["State"].split()[0] in ("R", "D")
            yield _Task(tid, at_work, int(told["voluntary_ctxt_switches"]))


def ranks_under(pid: int) -> dict[int, int]:
    """pid -> rank of the processes below a launcher that have a rank in their environment, and a parent without."""
    ranks: dict[int, int] = {}
    try:
        family = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return ranks
    told = {process.pid: _rank_of(process.pid) for process in family}
    for process in family:
        rank = told[process.pid]
        try:
            if rank is not None and told.get(process.ppid()) is None:
                ranks[process.pid] = rank
        except psutil.Error:
            pass  # it has ended
    return ranks


def _without_ranks(pid: int) -> dict[int, int]:
    """The process of a job that has only one, and no rank anywhere: it has TensorFlow's code in its memory."""
    try:
        family = [pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return {}
    return {one: 0 for one in family if _has_tensorflow(one)}


def _has_tensorflow(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return TENSORFLOW_CODE in file.read()
    except OSError:
        return False


def _rank_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    told = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    if told.get(b"RANK", b"").isdigit():
        return int(told[b"RANK"])
    return rank_of_task(told[b"TF_CONFIG"]) if b"TF_CONFIG" in told else None


def rank_of_task(tf_config: bytes) -> int | None:
    """The chief is the first, then come the workers in order; an evaluator is none."""
    try:
        config = json.loads(tf_config)
        kind, index = config["task"]["type"], int(config["task"]["index"])
        chiefs = len(config["cluster"].get("chief", []))
    except (KeyError, TypeError, ValueError):
        return None
    return {"chief": index, "worker": chiefs + index}.get(kind)
