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

from ddetect.agent.deaths import Death, read_last_status
from ddetect.agent.discover import EnvironmentScan, Scan, is_whole_job, local_world_of
from ddetect.agent.members import JobProcess
from ddetect.host.proc import read_environ, read_stat
from ddetect.model import Role

_SCAN_NS = 5_000_000_000
_SCAN_SETTLED_NS = 15_000_000_000  # once every rank we know has a page
_FORGET_NS = 60_000_000_000
_IN_A_GROUP = (layout.PG_JOINING, layout.PG_READY, layout.PG_LEAVING)


@dataclass(frozen=True, slots=True)
class Departed:
    """A member that was found gone, when that was at the latest, and its wait status: the kernel's word, or its own."""

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
        self._inodes: dict[str, int] = {}  # of the pages that were opened, or were none of ours, by name
        self._scan = scan or EnvironmentScan(run_dir)
        self._scan_at_ns = 0

    def look(self, now_ns: int) -> list[Departed]:
        """See who is new, who is gone, and how the others are."""
        self._open_pages()
        if now_ns >= self._scan_at_ns:
            self._find_without_page()
            bare = any(m.page is None and not m.gone for m in self._members.values())
            settled = bool(self._inodes) and not bare
            self._scan_at_ns = now_ns + (_SCAN_SETTLED_NS if settled else _SCAN_NS)
        self._read_roles()
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

    def watched(self) -> list[JobProcess]:
        """Whose end must not be missed: ranks, their helpers, and the process that may turn out to be the whole job."""
        alone = [m for m in self._members.values() if m.whole_job and m.role is Role.OTHER]
        return [*self.ranks(), *self.helpers(), *alone]

    def _read_roles(self) -> None:
        """Take over what pages say, but for this: of a rank and its child that both say they are one, one is.

        The child, if the parent only started it (mp.spawn, under a RANK that was meant for the node). Else the parent:
        it is in a group or trains itself, and what its child has joined is the child's own (a writer of checkpoints).
        """
        said: dict[int, JobProcess] = {}
        for member in self._members.values():
            if member.page is not None and not member.gone:
                member.read_identity(member.page.header())
            if member.page is not None and member.role is Role.RANK and not _is_living(said.get(member.pid)):
                said[member.pid] = member
        for child in said.values():
            parent = said.get(child.parent)
            if parent is None or parent.gone:
                continue
            if not _takes_part(parent, child):
                parent.role = Role.OTHER
            elif not child.gone:
                child.role, child.rank = Role.CHILD, parent.rank

    def _open_pages(self) -> None:
        try:
            with os.scandir(self._pages) as entries:
                found = {entry.name: entry.inode() for entry in entries if entry.name.endswith(layout.SUFFIX)}
        except OSError:
            found = {}
        for name, inode in found.items():
            # A process that executes itself again keeps its pid and start time, and so the name of its page.
            if self._inodes.get(name) != inode:
                self._open(name)
        self._inodes = found

    def _open(self, name: str) -> None:
        try:
            page = layout.Page(os.path.join(self._pages, name))
            header = page.header()
        except (OSError, ValueError) as error:
            print(f"ddetect agent: {error}", file=sys.stderr)
            return
        key = header[layout.S_PID], header[layout.S_START_TICKS]
        member = self._members.get(key)
        if member is None:
            member = self._members[key] = JobProcess(*key, Role.OTHER, -1)
        member.page = page  # the one before is not closed: evidence may just be read from it
        member.read_identity(header)

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
        stat = read_stat(member.pid)
        if stat is not None and stat.start_ticks == member.start_ticks and stat.state not in "ZX":
            member.stat = stat
            member.last_seen_ns = now_ns
            if member.role is Role.RANK and member.local_world is None and member.world_size > 0:
                member.local_world = local_world_of(read_environ(member.pid), member.world_size)
            if member.whole_job is None and member.page is not None:
                environ, above = read_environ(member.pid), read_environ(stat.parent)
                member.whole_job = is_whole_job(environ, above, self.run_dir)
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
        status = death.status if death is not None else read_last_status(member)
        departed = Departed(member, at_ns, _told_status(member) if status is None else status)
        if member.whole_job is None and member.page is not None:
            above = read_environ(member.parent)  # it never lived while we looked: who started it had the same
            member.whole_job = is_whole_job(above, above, self.run_dir)
        if not _ended_well(departed) and self._is_all_there_was(member):
            member.role, member.rank, member.world_size, member.local_world = Role.RANK, 0, 1, 1
        return departed

    def _is_all_there_was(self, member: JobProcess) -> bool:
        """Whether this process was the job, and died before it trained or joined anything that would have told so."""
        others = [m for m in self._members.values() if m is not member]
        return (
            member.role is Role.OTHER
            and member.whole_job is True
            and not any(m.role is Role.RANK or m.whole_job for m in others)
        )

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


def _is_living(member: JobProcess | None) -> bool:
    return member is not None and not member.gone


def _takes_part(parent: JobProcess, child: JobProcess) -> bool:
    """Whether a rank is in a process group, or has trained since its child began."""
    if parent.page is None or child.page is None:
        return False
    if parent.page.header()[layout.S_PG_STATE] in _IN_A_GROUP:
        return True
    begun_ns = child.page.header()[layout.S_CREATED_NS]
    return any(max(lane.step_ns, lane.batch_ns) > begun_ns for lane in parent.page.lanes())


def _told_status(member: JobProcess) -> int | None:
    """The wait status that follows from what the process said it would exit with; None where it said nothing."""
    code = member.page.header()[layout.S_EXIT_CODE] - 1 if member.page is not None else -1
    return code << 8 if code >= 0 else None


def _ended_well(departed: Departed) -> bool:
    said = departed.member.page.header()[layout.S_EXIT] if departed.member.page is not None else layout.ALIVE
    if departed.status is None:
        return said == layout.EXITED
    return departed.status == 0 and said != layout.RAISED


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # someone else tidied up
