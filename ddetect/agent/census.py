"""Who there is on this node: one look a second keeps every process of the job in view.

Enters: the pages folder and /proc. Leaves: members, and those that have just gone. Pages stay mapped; a
look costs one directory listing, and one /proc/PID/stat and one page header for each process.
Never here: an exception because of one bad page or process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ddetect_probe import page as layout
from ddetect_probe import rundir

from ddetect.agent.deaths import Death
from ddetect.agent.discover import EnvironmentScan, Scan, local_world_of
from ddetect.agent.members import JobProcess
from ddetect.host.proc import read_environ, read_stat
from ddetect.model import Role

_SCAN_NS = 5_000_000_000
_SCAN_SETTLED_NS = 15_000_000_000  # once every rank we know has a page
_FORGET_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Departed:
    """A member that was found gone, when that was (at the latest), and its wait status if the kernel told us."""

    member: JobProcess
    at_ns: int
    status: int | None = None


class Census:
    """The processes of the job on this node. `look` once a second; the rest only tells."""

    def __init__(
        self,
        run_dir: str,
        deaths: Mapping[tuple[int, int], Death] | None = None,
        scan: Scan | None = None,
    ) -> None:
        self.run_dir = run_dir
        self._deaths = deaths if deaths is not None else {}
        self._pages = os.path.join(run_dir, rundir.PAGES)
        self._members: dict[tuple[int, int], JobProcess] = {}
        self._by_file: dict[str, JobProcess | None] = {}  # None: a file that is no page of ours
        self._scan = scan or EnvironmentScan(run_dir)
        self._scan_at_ns = 0

    def look(self, now_ns: int) -> list[Departed]:
        """See who is new, who is gone, and how the others are."""
        self._open_pages()
        if now_ns >= self._scan_at_ns:
            self._find_without_page()
            bare = any(m.page is None and not m.gone for m in self._members.values())
            settled = bool(self._by_file) and not bare
            self._scan_at_ns = now_ns + (_SCAN_SETTLED_NS if settled else _SCAN_NS)
        departed = [d for m in self._members.values() if (d := self._refresh(m, now_ns)) is not None]
        self._forget(now_ns)
        return departed

    def ranks(self) -> list[JobProcess]:
        """One member per rank of the newest attempt, in the order of ranks; those that are gone stay in it."""
        known = [m for m in self._members.values() if m.role is Role.RANK and m.rank >= 0]
        newest = max((m.restart for m in known), default=0)
        chosen: dict[int, JobProcess] = {}
        for member in known:
            if member.restart != newest:
                continue
            other = chosen.get(member.rank)
            if other is None or _claim(member) > _claim(other):
                chosen[member.rank] = member
        return [chosen[rank] for rank in sorted(chosen)]

    def helpers(self) -> list[JobProcess]:
        """Living loader workers and children that have a page, with the rank they work for."""
        ranks = {m.pid: m for m in self.ranks()}
        found: list[JobProcess] = []
        for member in self._members.values():
            if member.gone or member.role not in (Role.LOADER_WORKER, Role.CHILD):
                continue
            if member.rank < 0 and member.parent in ranks:
                member.rank = ranks[member.parent].rank
            if member.rank >= 0:
                found.append(member)
        return sorted(found, key=lambda m: (m.rank, m.role, m.index, m.pid))

    def _open_pages(self) -> None:
        try:
            names = {name for name in os.listdir(self._pages) if name.endswith(layout.SUFFIX)}
        except OSError:
            names = set()
        for name in names - self._by_file.keys():
            self._by_file[name] = self._open(name)
        for name in self._by_file.keys() - names:
            del self._by_file[name]

    def _open(self, name: str) -> JobProcess | None:
        try:
            page = layout.Page(os.path.join(self._pages, name))
            header = page.header()
        except (OSError, ValueError) as error:
            print(f"ddetect agent: {error}", file=sys.stderr)
            return None
        key = header[layout.S_PID], header[layout.S_START_TICKS]
        member = self._members.get(key)
        if member is None:
            member = self._members[key] = JobProcess(*key, Role.OTHER, -1)
        member.page = page
        member.read_identity(header)
        return member

    def _find_without_page(self) -> None:
        known = {m.pid for m in self._members.values() if not m.gone}
        for found in self._scan.find(known):
            self._members[found.pid, found.start_ticks] = JobProcess(
                found.pid,
                found.start_ticks,
                found.role,
                found.rank,
                parent=found.parent,
                world_size=found.world_size,
                restart=found.restart,
            )

    def _refresh(self, member: JobProcess, now_ns: int) -> Departed | None:
        if member.gone:
            return None
        if member.page is not None:
            member.read_identity(member.page.header())
        stat = read_stat(member.pid)
        if stat is not None and stat.start_ticks == member.start_ticks and stat.state not in "ZX":
            member.stat = stat
            member.last_seen_ns = now_ns
            if member.role is Role.RANK and member.local_world is None and member.world_size > 0:
                member.local_world = local_world_of(read_environ(member.pid), member.world_size)
            return None
        member.stat = None
        member.gone = True
        # Gone between two looks: the kernel may have told us when. The exit mark knows best what it meant to do.
        death = self._deaths.get(member.key)
        at_ns = min(death.at_ns, now_ns) if death is not None else now_ns
        if member.page is not None:
            marked = member.page.header()[layout.S_EXIT_NS]
            at_ns = marked if 0 < marked <= now_ns else at_ns
        member.last_seen_ns = now_ns
        return Departed(member, at_ns, death.status if death is not None else None)

    def _forget(self, now_ns: int) -> None:
        """Remove helpers that are long gone, page and all: loader workers come and go with every epoch."""
        for member in list(self._members.values()):
            if member.gone and member.role is not Role.RANK and now_ns - member.last_seen_ns > _FORGET_NS:
                del self._members[member.key]
                if member.page is not None:
                    _remove(member.page.path)


def _claim(member: JobProcess) -> tuple[bool, bool, int]:
    """Of two processes that say they are the same rank: the living, the one in a group, the newer."""
    joined = member.page is not None and member.page.header()[layout.S_PG_STATE] != layout.PG_NONE
    return not member.gone, joined, member.start_ticks


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # someone else tidied up
