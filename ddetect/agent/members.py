"""A process of the job, as the agent knows it: identity, page, and the last look at /proc.

Enters: a page or what the environment of a process says. Leaves: JobProcess, the one mutable thing the agent's
parts share; only the census changes it.
Never here: I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddetect_probe import page as layout

from ddetect.host.proc import Stat
from ddetect.model import UNKNOWN, Role


@dataclass(slots=True, eq=False)
class JobProcess:
    """One process. `page` is None when it has no probe; `stat` is None once it is gone."""

    pid: int
    start_ticks: int
    role: Role
    rank: int
    index: int = UNKNOWN
    parent: int = UNKNOWN
    world_size: int = UNKNOWN
    restart: int = 0
    local_world: int | None = None  # ranks that this node should have; None: its environment was not read yet
    whole_job: bool | None = (
        None  # nothing of the job is above or beside it; None: its environment was not read yet
    )
    page: layout.Page | None = None
    stat: Stat | None = None
    last_seen_ns: int = 0  # when it was last found alive
    gone: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """The identity of a process: pids are used again."""
        return self.pid, self.start_ticks

    def read_identity(self, header: tuple[int, ...]) -> None:
        """Take over what the page says; a rank may learn its number late."""
        self.role = Role(header[layout.S_ROLE]) if header[layout.S_ROLE] in _ROLES else Role.OTHER
        self.rank = header[layout.S_RANK]
        self.index = header[layout.S_WORKER_INDEX]
        self.parent = header[layout.S_PARENT]
        self.world_size = header[layout.S_WORLD]
        self.restart = header[layout.S_RESTART]


_ROLES = frozenset(int(role) for role in Role)
