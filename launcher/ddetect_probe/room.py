"""Is there room for more threads? Torch's server ends the process (std::terminate) when it cannot start its own.

Enters: RLIMIT_NPROC, the pids limits of the cgroups this process is in. Leaves: a number. Never here: a guess of
trouble; a limit that cannot be read is none.
"""

from __future__ import annotations

import os
import resource
from typing import Iterator


def free_threads(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> float:
    """How many threads may still be started here, as far as the limits tell."""
    return min([float("inf"), *_by_user(proc), *_by_cgroup(proc, cgroups)])


def _by_user(proc: str) -> Iterator[int]:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    user = os.getuid()
    if user == 0 or limit == resource.RLIM_INFINITY:  # the kernel does not count root
        return
    running = 0
    for pid in filter(str.isdigit, os.listdir(proc)):
        try:
            tasks = os.stat(f"{proc}/{pid}/task")
        except OSError:
            continue
        if tasks.st_uid == user:
            running += tasks.st_nlink - 2
    yield limit - running


def _by_cgroup(proc: str, cgroups: str) -> Iterator[int]:
    try:
        with open(f"{proc}/self/cgroup") as lines:
            entries = [line.rstrip("\n").split(":", 2) for line in lines]
    except OSError:
        return
    for _, controllers, path in (entry for entry in entries if len(entry) == 3):
        if controllers and "pids" not in controllers.split(","):
            continue
        mount = os.path.join(cgroups, "pids") if controllers else cgroups
        while True:  # a limit of any folder above holds too; in a container the path may begin outside of it
            try:
                folder = mount + path.rstrip("/")
                with open(folder + "/pids.max") as most, open(folder + "/pids.current") as now:
                    yield int(most.read()) - int(now.read())
            except (OSError, ValueError):  # not there, or "max"
                pass
            if path in ("/", ""):
                break
            path = os.path.dirname(path)
