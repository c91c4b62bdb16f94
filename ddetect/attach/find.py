"""Which processes of this host are the job: ranks by the environment they were started with, loader workers by name.

Enters: /proc and what the user chose (pids, a pattern, everything). Leaves: ranks of one job, found again and again
while it lives (a restart has new ones), or an error that says what there is instead.
Never here: ptrace, stacks; a process that was not chosen.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ddetect_launcher.tf_config import Cluster, parse_tf_config

from ddetect.agent.discover import Found, is_helper
from ddetect.errors import HostError, UsageError
from ddetect.host.framework import serves_a_cluster
from ddetect.host.proc import Stat, read_cmdline, read_environ, read_pids, read_stat
from ddetect.host.ptrace import why_not
from ddetect.model import UNKNOWN, Role

# The launcher's own words first: under Slurm, torchrun itself has a SLURM_PROCID, and its children have a RANK. A task
# of TF_CONFIG comes second: some clouds set it for torchrun too, and under srun it is what the members call each other.
_OWN = ("RANK", "WORLD_SIZE")
_TASK = 1  # the place of TF_CONFIG among them
_SCHEDULERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_LOADER_NAME = "pt_data_worker"
"""What torch calls the main thread of a loader worker."""
_SHOWN = 6
_SETTLED_TICKS = 2 * os.sysconf("SC_CLK_TCK")
"""Between fork and exec a rank still looks like its launcher: so young a process is looked at again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user chose. Neither: every rank there is, if they are of one job."""

    pids: tuple[int, ...] = ()
    match: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that was told a rank. `told` 0 is the most trustworthy source."""

    found: Found
    told: int
    job: str  # what its launcher or scheduler calls the job: two may share it
    command: str
    master: str = ""  # where its ranks meet; torchrun may choose another port for each attempt
    launcher: int = 0  # torchrun's pid, also where a shell stands between; 0 if it was not torchrun
    run: str = ""  # what torchrun calls the run, if it was torchrun
    servers: bool = False  # its cluster has parameter servers

    @property
    def marks(self) -> frozenset[tuple[object, ...]]:
        """Ranks that have a mark in common are of one job: the same name and master, or the same torchrun."""
        met = (self.job, self.master)
        return frozenset({met, ("under", self.launcher, self.run)} if self.run and self.launcher else {met})

    @property
    def starter(self) -> int:
        """Tells two jobs apart that share every mark."""
        return self.launcher or self.found.parent


class JobScan:
    """Finds the processes of one job; `choose` says which, once."""

    def __init__(self, wanted: Wanted, read_environ: Callable[[int], dict[str, str]] = read_environ) -> None:
        self._wanted, self._read_environ = wanted, read_environ
        self._job: str | None = None
        self._marks: frozenset[tuple[object, ...]] = frozenset()  # of its ranks, as last seen
        self._starters: set[int] = set()  # of the ranks that were chosen: two jobs may share a name
        self._alone: dict[int, Found] = {}  # chosen by pid, without a rank of their own
        self._ranks: dict[int, int] = {}  # pid of every rank ever found
        self._not_ours: set[tuple[int, int]] = set()
        self.denied: dict[int, str] = {}

    def choose(self) -> list[Found]:
        """The ranks of the job that was meant. Raises UsageError when there is none, or more than one job."""
        stats = read_stats()
        candidates = self._candidates(stats)
        chosen = [job for job in _jobs(candidates) if any(self._is_wanted(one, stats) for one in job)]
        if not chosen and self._wanted.pids:
            self._alone = _by_pid([pid for pid in self._wanted.pids if pid not in self.denied], stats)
        if len(chosen) > 1 and self._wanted.pids:
            # Two jobs share every mark, and each has several launchers: those below the pids are the one that is meant.
            meant = [one for job in chosen for one in job if self._is_wanted(one, stats)]
            chosen = [meant] if len(_linked(meant)) == 1 and not _twice(meant) else chosen
        if len(chosen) > 1:
            raise _several(chosen)
        served = any(one.servers for job in chosen for one in job)
        if served or any(_has_servers(self._read_environ(pid)) for pid in self._alone):
            raise UsageError(
                "this job has parameter servers, and ParameterServerStrategy is not judged yet",
                hint="MirroredStrategy and MultiWorkerMirroredStrategy are.",
            )
        if not chosen and not self._alone:
            raise self._nothing(candidates)
        if chosen:
            (ranks,) = chosen
            self._job, self._marks = ranks[0].job, _marks(ranks)
            self._starters = {one.starter for one in ranks}
            return [one.found for one in ranks]
        return list(self._alone.values())

    @property
    def name(self) -> str:
        """What to call the job."""
        return self._job or f"pid-{min(self._alone, default=0)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the choice."""
        lonely = [pid for pid, found in self._alone.items() if found.world_size == UNKNOWN]
        return tuple(
            f"pid {pid} is a task of a TensorFlow cluster, and its environment does not show which (its script sets "
            "TF_CONFIG itself): it is watched alone. To have the others watched too, name all of them in their order, "
            "the chief or worker 0 first: ddetect attach --pid PID PID ..."
            for pid in lonely
        )

    def find(self, known: Collection[int]) -> list[Found]:
        """Ranks of the job and their loader workers that are not in `known`."""
        stats = read_stats()
        ranks = self._of_the_job(self._candidates(stats))
        ranks += [found for pid, found in self._alone.items() if pid in stats]
        news = [found for found in ranks if found.pid not in known]
        self._ranks.update({found.pid: found.rank for found in ranks})
        return news + [
            Found(
                pid, stat.start_ticks, stat.parent, self._ranks[stat.parent], UNKNOWN, 0, Role.LOADER_WORKER
            )
            for pid, stat in stats.items()
            if stat.name == _LOADER_NAME and stat.parent in self._ranks and pid not in known
        ]

    # ------------------------------------------------------------ looking

    def _of_the_job(self, candidates: list[Candidate]) -> list[Found]:
        """All ranks of it on this host; where two launchers claim one rank, only those of ours."""
        mine = [one for job in _linked(candidates) if _marks(job) & self._marks for one in job]
        if _twice(mine):
            mine = [one for one in mine if one.starter in self._starters]
        # A restart has another port, and the old one may become another's.
        self._marks = _marks(mine) or self._marks
        return [one.found for one in mine]

    def _candidates(self, stats: dict[int, Stat]) -> list[Candidate]:
        """Outermost Python processes with a rank; below a launcher that has one too, those that it started."""
        found: dict[int, Candidate] = {}
        settled = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") - _SETTLED_TICKS
        for pid, stat in stats.items():
            if pid == os.getpid() or (pid, stat.start_ticks) in self._not_ours or stat.state in "ZX":
                continue
            one = self._candidate(pid, stat, stats)
            if one is not None:
                found[pid] = one
            elif pid not in self.denied and stat.start_ticks < settled:
                self._not_ours.add((pid, stat.start_ticks))
        kept = []
        for pid, one in found.items():
            above = [found[up] for up in _ancestors(pid, stats) if up in found]
            below = any(pid in _ancestors(other, stats) and found[other].told < one.told for other in found)
            if not below and not any(other.told <= one.told for other in above):
                kept.append(one)
        return sorted(kept, key=lambda one: (one.job, one.found.rank))

    def _candidate(self, pid: int, stat: Stat, stats: dict[int, Stat]) -> Candidate | None:
        command = read_cmdline(pid)
        if not command or is_helper(command) or not _is_python(command, stat) or stat.name == _LOADER_NAME:
            return None
        environ = self._read_environ(pid)
        if not environ:
            self.denied[pid] = why_not(pid) or f"the environment of pid {pid} is empty"
            return None
        cluster = parse_tf_config(environ.get("TF_CONFIG"))
        for told, (rank, world) in enumerate(_numbers(environ, cluster)):
            if rank < 0:
                continue
            restart = max(0, _number(environ.get("TORCHELASTIC_RESTART_COUNT")))
            found = Found(pid, stat.start_ticks, stat.parent, rank, world, restart)
            words = " ".join(command)
            if told == _TASK and cluster is not None:
                return Candidate(found, told, cluster.name, words, servers=bool(cluster.servers))
            run = environ.get("TORCHELASTIC_RUN_ID", "")
            launcher = _python_above(pid, stats) if run else 0
            return Candidate(found, told, _job_of(environ, stat), words, _master_of(environ), launcher, run)
        return None

    def _is_wanted(self, one: Candidate, stats: dict[int, Stat]) -> bool:
        if self._wanted.pids:
            return bool({one.found.pid, *_ancestors(one.found.pid, stats)} & set(self._wanted.pids))
        return not self._wanted.match or re.search(self._wanted.match, one.command) is not None

    def _nothing(self, candidates: list[Candidate]) -> UsageError | HostError:
        if self._wanted.pids:
            refused = [self.denied[pid] for pid in self._wanted.pids if pid in self.denied]
            if refused:
                return HostError(
                    "; ".join(refused), hint="Run `ddetect doctor` to see what works on this host."
                )
            pids = ", ".join(map(str, self._wanted.pids))
            return UsageError(f"no Python process is or descends from pid {pids}", hint=_HINT)
        if self._wanted.match and candidates:
            shown = "; ".join(_words([one]) for one in candidates[:_SHOWN])
            return UsageError(f"no rank's command line matches {self._wanted.match!r}; there are: {shown}")
        denied = ""
        if self.denied:
            several = (
                f"{len(self.denied)} could not be asked" if len(self.denied) > 1 else "one could not be asked"
            )
            denied = f"; {several}: {next(iter(self.denied.values()))}"
        return UsageError(
            f"there is no job to attach to: no Python process here was given a rank{denied}", _HINT
        )


_HINT = (
    "Name the process: ddetect attach --pid PID (a rank, its launcher, or a training program without ranks; of a job "
    "whose script sets TF_CONFIG itself, all tasks in their order)."
)


def _twice(ranks: list[Candidate]) -> bool:
    """Whether two launchers claim the same rank; one launcher may, while the ranks of an old attempt end."""
    claims = {(one.found.rank, one.starter) for one in ranks}
    return len({rank for rank, _ in claims}) < len(claims)


def _jobs(candidates: list[Candidate]) -> list[list[Candidate]]:
    """The jobs among them; one that has every rank twice is two, told apart by their launchers."""
    found: list[list[Candidate]] = []
    for ranks in _linked(candidates):
        starters = sorted({one.starter for one in ranks}) if _twice(ranks) else []
        found += [[one for one in ranks if one.starter == pid] for pid in starters] or [ranks]
    return found


def _linked(candidates: list[Candidate]) -> list[list[Candidate]]:
    """Ranks that belong together by their marks, each to the next."""
    found: list[tuple[frozenset[tuple[object, ...]], list[Candidate]]] = []
    for one in candidates:
        near = [job for job in found if job[0] & one.marks]
        found = [job for job in found if not job[0] & one.marks]
        marks = one.marks.union(*(job[0] for job in near))
        found.append((marks, [*(other for job in near for other in job[1]), one]))
    return [ranks for _, ranks in found]


def _marks(ranks: list[Candidate]) -> frozenset[tuple[object, ...]]:
    return frozenset().union(*(one.marks for one in ranks))


def _several(jobs: list[list[Candidate]]) -> UsageError:
    lines = [_words(job) for job in jobs[:_SHOWN]]
    more = f"; and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
    return UsageError(
        f"there are {len(jobs)} jobs here: {'; '.join(lines)}{more}",
        hint="Choose one: ddetect attach --pid PID (any of its ranks), or --match REGEX.",
    )


def _words(ranks: list[Candidate]) -> str:
    pids = ",".join(str(one.found.pid) for one in ranks[:_SHOWN])
    return f"pid {pids} ({ranks[0].command[-60:]})"


def read_stats() -> dict[int, Stat]:
    """Every process there is."""
    return {pid: stat for pid in read_pids() if (stat := read_stat(pid)) is not None}


def _by_pid(pids: Iterable[int], stats: dict[int, Stat]) -> dict[int, Found]:
    """Python processes that nobody gave a rank: numbered in the order in which they were chosen."""
    python = [pid for pid in pids if pid in stats and _is_python(read_cmdline(pid), stats[pid])]
    world = UNKNOWN if len(python) == 1 and serves_a_cluster(python[0]) else len(python)
    return {
        pid: Found(pid, stats[pid].start_ticks, stats[pid].parent, rank, world, 0)
        for rank, pid in enumerate(python)
    }


def _is_python(command: tuple[str, ...], stat: Stat) -> bool:
    program = os.path.basename(command[0]).lower() if command else ""
    return "python" in program or "python" in stat.name.lower()


def _numbers(environ: dict[str, str], cluster: Cluster | None) -> list[tuple[int, int]]:
    """(rank, world) as each source says it, the most trustworthy first; UNKNOWN where it says nothing."""
    task = (cluster.rank, cluster.world) if cluster is not None else (UNKNOWN, UNKNOWN)
    told = [(_number(environ.get(rank)), _number(environ.get(world))) for rank, world in (_OWN, *_SCHEDULERS)]
    return [*told[:_TASK], task, *told[_TASK:]]


def _has_servers(environ: dict[str, str]) -> bool:
    cluster = parse_tf_config(environ.get("TF_CONFIG"))
    return cluster is not None and bool(cluster.servers)


def _job_of(environ: dict[str, str], stat: Stat) -> str:
    """What the ranks of one job have in common, and those of another do not."""
    run_id = environ.get("TORCHELASTIC_RUN_ID", "none")
    if run_id != "none":
        return run_id
    for name in ("SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"):
        if environ.get(name):
            return environ[name] + "." + environ.get("SLURM_STEP_ID", "0")
    return _master_of(environ) or f"pid-{stat.parent}"


def _master_of(environ: dict[str, str]) -> str:
    port = environ.get("MASTER_PORT")
    return f"{environ.get('MASTER_ADDR', '')}:{port}" if port else ""


def _python_above(pid: int, stats: dict[int, Stat]) -> int:
    """The nearest Python program above: torchrun, also where it runs a shell that runs the rank. 0 if there is none."""
    above = (up for up in _ancestors(pid, stats) if up in stats)
    return next((up for up in above if _is_python(read_cmdline(up), stats[up])), 0)


def _ancestors(pid: int, stats: dict[int, Stat]) -> list[int]:
    found: list[int] = []
    while pid in stats and len(found) < 64:
        pid = stats[pid].parent
        found.append(pid)
    return found


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else UNKNOWN
