"""Find rank processes that have no page, and the children of those that have.

Enters: /proc. Leaves: plain values. A rank process is the outermost Python process that was started with
RANK (or a task of TF_CONFIG) and with our run directory in its environment; multiprocessing's trackers inherit both
and are none.
Never here: pages (census.py reads them first), a scan on every beat.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ddetect_launcher.tf_config import parse_tf_config

from ddetect.host.proc import Stat, read_cmdline, read_environ, read_pids, read_stat
from ddetect.model import UNKNOWN, Role

_HELPERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "multiprocessing.semaphore_tracker",
)


_LOCAL_WORLD = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_WORLD = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@dataclass(frozen=True, slots=True)
class Found:
    """A rank process (or a loader worker) without a page."""

    pid: int
    start_ticks: int
    parent: int
    rank: int
    world_size: int
    restart: int
    role: Role = Role.RANK
    by_task: bool = False  # no launcher gave it a number: it follows from its task in TF_CONFIG


class Scan(Protocol):
    """Finds processes of the job that have no page."""

    def find(self, known: Collection[int]) -> list[Found]:
        """Those that are not in `known`."""
        ...


class EnvironmentScan:
    """Looks for ranks by their environment; remembers which processes are not of this job."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._strikes: dict[int, int] = {}

    def find(self, known: Collection[int]) -> list[Found]:
        """Every rank process that is not in `known` (pids with a page, and their children, need no second look)."""
        pids = read_pids()
        self._strikes = {pid: self._strikes[pid] for pid in pids if pid in self._strikes}
        candidates: dict[int, Found] = {}
        for pid in pids:
            # Twice not ours and we stop asking: a process between fork and exec still has its parent's environment.
            if pid in known or pid == os.getpid() or self._strikes.get(pid, 0) >= 2:
                continue
            environ = read_environ(pid)
            if environ.get("DDETECT_RUN_DIR") != self._run_dir:
                self._strikes[pid] = self._strikes.get(pid, 0) + 1
                continue
            found = _as_rank(pid, environ)
            if found is not None:
                candidates[pid] = found
        # Some clouds set TF_CONFIG for every job. Where ranks have a RANK, a process without one is their launcher.
        if not all(found.by_task for found in candidates.values()):
            candidates = {pid: found for pid, found in candidates.items() if not found.by_task}
        ranks = []
        for found in candidates.values():
            if _has_ancestor(found.parent, candidates, known):
                self._strikes[found.pid] = 2  # once a rank's child, never a rank, not even as an orphan
            else:
                ranks.append(found)
        return ranks


def _as_rank(pid: int, environ: dict[str, str]) -> Found | None:
    stat = read_stat(pid)
    command = read_cmdline(pid)
    if stat is None or stat.state in "ZX" or not command or is_helper(command):
        return None
    if "python" not in os.path.basename(command[0]).lower() and "python" not in stat.name.lower():
        return None  # a shell around the rank
    rank, world = _number(environ.get("RANK")), _number(environ.get("WORLD_SIZE"))
    cluster = parse_tf_config(environ.get("TF_CONFIG")) if rank < 0 else None
    if cluster is not None:
        rank, world = cluster.rank, cluster.world
    if rank < 0:
        return None
    restart = max(0, _number(environ.get("TORCHELASTIC_RESTART_COUNT")))
    return Found(pid, stat.start_ticks, stat.parent, rank, world, restart, by_task=cluster is not None)


def local_world_of(environ: Mapping[str, str], world_size: int) -> int:
    """How many ranks this node should have: as the launcher said, or all, if they can only meet on this host."""
    for name in _LOCAL_WORLD:
        told = _number(environ.get(name))
        if told > 0:
            return told
    cluster = parse_tf_config(environ.get("TF_CONFIG")) if "RANK" not in environ else None
    if cluster is not None and cluster.world == world_size:
        return cluster.local_world
    host = environ.get("MASTER_ADDR", "")
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    one_node = "SLURM_PROCID" in environ and environ.get("SLURM_STEP_NUM_NODES") == "1"
    return world_size if loopback or one_node else UNKNOWN


def is_whole_job(environ: Mapping[str, str], of_parent: Mapping[str, str], run_dir: str) -> bool:
    """Whether a process is what the launcher started, and nobody said that it is one of several."""
    if of_parent.get("DDETECT_RUN_DIR") == run_dir or parse_tf_config(environ.get("TF_CONFIG")) is not None:
        return False
    return all(_number(environ.get(name)) <= 1 for name in _WORLD)


def is_helper(command: Iterable[str]) -> bool:
    """Whether a command line is multiprocessing's bookkeeping, or ddetect itself."""
    words = list(command)
    text = " ".join(words)
    ours = words[1:3] == ["-m", "ddetect"] or (len(words) > 1 and os.path.basename(words[1]) == "ddetect")
    return ours or any(name in text for name in _HELPERS)


def _has_ancestor(pid: int, candidates: dict[int, Found], known: Collection[int]) -> bool:
    for _ in range(64):
        if pid in candidates or pid in known:
            return True
        stat = read_stat(pid) if pid > 1 else None
        if stat is None:
            return False
        pid = stat.parent
    return False


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else UNKNOWN


def find_children(roots: Collection[int], known: Collection[int]) -> list[tuple[int, int, Stat]]:
    """(root, pid, stat) of every descendant of `roots` that is not in `known`. One scan of /proc."""
    stats = {pid: stat for pid in read_pids() if (stat := read_stat(pid)) is not None}
    found: list[tuple[int, int, Stat]] = []
    for pid, stat in stats.items():
        if pid in known:
            continue
        root = _root_of(stat.parent, stats, roots)
        if root is not None and not is_helper(read_cmdline(pid)):
            found.append((root, pid, stat))
    return found


def _root_of(pid: int, stats: dict[int, Stat], roots: Collection[int]) -> int | None:
    for _ in range(64):
        if pid in roots:
            return pid
        if pid not in stats:
            return None
        pid = stats[pid].parent
    return None
