"""The run directory of a job on a node: what its files are called, their modes, its lock. The one place that knows.

Enters: the path of one, or the environment. Leaves: paths, what stands in its small files, and whether the job is over.
It lives in the probe because the rank is the process that can import least: of all that ddetect has, the job's
interpreter finds `ddetect_probe` and nothing beside it (bootstrap). Launcher, agent, coordinator and commands import
it from here, and of the probe nothing else but `page`.
Never here: making and removing one (the launcher's place.py), processes, imports that a rank would have to pay for.

    pages/PID.TICKS.page  sock/PID.sock  fault/PID.fault  homes/HASH.json    by the ranks
    members.lock          held shared by each launcher while its job lives; who gets it alone knows that the job is over
    job.json              by the first launcher: what runs here
    agent.sock            the agent hears here what launchers (or a sidecar) say of the job's end: one datagram each
    c.sock, coordinator   where the coordinator listens on a single node; the address to dial
    status.txt, alarm-NNN.txt, summary.txt     by the coordinator, for the launcher to show
    noticed.ddsnap        by the coordinator: the newest glance at a job that stands still within the usual
    agent.log, agent.lock, coordinator.log, coordinator.lock   of the companions; a lock is held while its holder lives
"""

from __future__ import annotations

import json
import os
import re
from typing import List, Mapping, NamedTuple, Optional, Tuple

PAGES, SOCKETS, FAULTS, HOMES = "pages", "sock", "fault", "homes"
MADE_AT_ONCE = (PAGES, SOCKETS, FAULTS)  # the first rank that has something to say makes HOMES
LOCK = "members.lock"
JOB = "job.json"
AGENT_SOCKET = "agent.sock"
COORDINATOR_SOCKET, COORDINATOR = "c.sock", "coordinator"
STATUS, SUMMARY = "status.txt", "summary.txt"
NOTICED = "noticed.ddsnap"
ALARM = re.compile(r"alarm-[0-9]+\.txt")
FOLDER_MODE, FILE_MODE = 0o700, 0o600
LONGEST_PATH = 88  # + "/sock/<pid>.sock" must fit in the 107 characters of a unix socket path
_IN_MEMORY = "/dev/shm"
LAST_RESORTS = ("/tmp", "/var/tmp")


class About(NamedTuple):
    """What job.json says: which job runs here, as its first launcher knew it."""

    job: str
    command: Tuple[str, ...] = ()
    launcher_pid: int = 0
    started_unix: float = 0.0
    out: str = ""


def user_folders(environ: Mapping[str, str]) -> List[str]:
    """The folders that hold this user's run directories, in the order in which launchers try them."""
    first = environ.get("DDETECT_RUN_BASE") or _IN_MEMORY
    temporary = [environ[name] for name in ("TMPDIR", "TEMP", "TMP") if environ.get(name)]
    bases = dict.fromkeys(map(os.path.abspath, (first, *temporary, *LAST_RESORTS)))
    return [os.path.join(base, f"ddetect-{os.getuid()}") for base in bases]


def socket_path(run_dir: str, pid: int) -> str:
    """Where a rank's own server listens."""
    return os.path.join(run_dir, SOCKETS, f"{pid}.sock")


def fault_path(run_dir: str, pid: int) -> str:
    """What a process's faulthandler writes to."""
    return os.path.join(run_dir, FAULTS, f"{pid}.fault")


def log_path(run_dir: str, companion: str) -> str:
    """What a companion, the agent or the coordinator, prints."""
    return os.path.join(run_dir, f"{companion}.log")


def lock_path(run_dir: str, companion: str) -> str:
    """The file that a companion holds locked while it lives; its pid stands in it."""
    return os.path.join(run_dir, f"{companion}.lock")


def alarm_name(number: int) -> str:
    """The file of an alarm; their names sort as they were raised."""
    return f"alarm-{number:03d}.txt"


def open_lock(run_dir: str, *, create: bool = False) -> int:
    """A descriptor of members.lock that no child inherits. Raises OSError."""
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    return os.open(os.path.join(run_dir, LOCK), flags, FILE_MODE)


def job_is_over(run_dir: str) -> bool:
    """Whether no launcher holds the run directory any more. One without a lock file (a sidecar's) must be gone.

    In doubt (the lock is not ours to open) the job lives. For a moment the asker holds the lock itself: a launcher that
    wants it looks twice.
    """
    try:
        handle = open_lock(run_dir)
    except OSError:
        return not os.path.isdir(run_dir)
    return not _is_held(handle)


def is_held(path: str) -> bool:
    """Whether somebody holds this lock file. False where there is none."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    return _is_held(handle)


def _is_held(handle: int) -> bool:
    """Whether somebody else holds the lock of this descriptor, which is closed."""
    import fcntl  # no rank asks

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def write_about(run_dir: str, about: About) -> None:
    """Say what runs here, unless another launcher of this node was first."""
    path = os.path.join(run_dir, JOB)
    if not os.path.exists(path):
        write_whole(path, json.dumps(about._asdict()))


def read_about(run_dir: str) -> Optional[About]:
    """What runs here; None for a folder that is no run directory, or not yet."""
    try:
        with open(os.path.join(run_dir, JOB), encoding="utf-8") as handle:
            said = json.load(handle)
        command = said.get("command")
        return About(
            job=str(said.get("job") or ""),
            command=tuple(map(str, command)) if isinstance(command, list) else (),
            launcher_pid=int(said.get("launcher_pid") or 0),
            started_unix=float(said.get("started_unix") or 0.0),
            out=str(said.get("out") or ""),
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def read_coordinator(run_dir: str) -> str:
    """The address to dial; "" while nobody listens."""
    try:
        with open(os.path.join(run_dir, COORDINATOR), encoding="utf-8") as handle:
            return handle.read().strip()
    except (OSError, ValueError):
        return ""


def write_whole(path: str, text: str) -> None:
    """Write a small file so that nobody ever reads half of it. Raises OSError."""
    unfinished = f"{path}.{os.getpid()}"
    with open(unfinished, "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(unfinished, path)
