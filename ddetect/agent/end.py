"""End the processes of the job on this node, gently first: ranks, then their loader workers and children.

Enters: members and a grace. Leaves: letters to those that can raise them, signals, and what came of them. All are noted
before the first word or signal (`note`): when a rank dies its children get another parent, and nobody can tell any more
whose they were. Each is held by a pidfd and its start time is checked, so a pid that was given to another process is
never hit. A descendant in a session of its own (wandb, Ray) has been set apart by its author: it is named and left.
Never here: what starts ranks (torchrun, mp.spawn's parent): it sees its ranks end, and may start others.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ddetect_probe import page as layout

from ddetect.agent.members import JobProcess
from ddetect.host.proc import Stat, is_alive, read_cmdline, read_pids, read_stat, session_of
from ddetect.messages import RanksEnded
from ddetect.model import Role

RAISES_WITHIN_S = 3.0
"""What a rank gets to raise its letter and to leave: the tick that reads it, the abort, a traceback, exit handlers."""
HELPERS_WITHIN_S = 2.0
"""What loader workers and children get once their ranks are gone. Not before: a rank may need them to save its work."""
_DIES_WITHIN_S = 1.0  # of SIGKILL; who does not is in the kernel, and may stay there
_HURRIED_S = 0.2
_LOOK_EVERY_S = 0.05
_TRACKERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "multiprocessing.semaphore_tracker",
)


@dataclass(frozen=True, slots=True)
class Held:
    """A process that is ours to end. Without `handle` (no pidfds here, or none left) it is only looked at."""

    pid: int
    start_ticks: int
    name: str
    handle: int | None
    is_rank: bool = False
    tidies: bool = (
        False  # multiprocessing's tracker: it ends by itself once the others have, and frees what they shared
    )

    @property
    def lives(self) -> bool:
        """Whether it runs; a zombie has ended."""
        return is_alive(self.pid, self.start_ticks)


@dataclass(slots=True)
class Noted:
    """Who is to be ended and who is left, as of the moment before anything was said or sent. Close it."""

    held: list[Held] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Let go of all."""
        for one in self.held:
            if one.handle is not None:
                os.close(one.handle)
        self.held = []


def note(ranks: Iterable[JobProcess], helpers: Iterable[JobProcess]) -> Noted:
    """Take hold of living ranks, their loader workers, and all that descends from them in the same session."""
    noted = Noted()
    stats = {pid: stat for pid in read_pids() if (stat := read_stat(pid)) is not None}
    roots = {member.pid: member for member in ranks if _is(member, stats)}
    for member in roots.values():
        _take(noted, member.pid, stats[member.pid], is_rank=True)
    taken = set(roots)
    # A worker whose rank is gone has no rank above it any more, but a page that says what it is. A child then must be
    # in the session of a rank that lives: of another nobody knows whose it is by now.
    of_ranks = {session_of(pid) for pid in roots}
    for member in helpers:
        sessions = {session_of(member.parent)} if member.parent in roots else of_ranks
        apart = member.role is not Role.LOADER_WORKER and session_of(member.pid) not in {*sessions, 0}
        if _is(member, stats) and member.pid not in taken and not apart:
            taken.add(member.pid)
            _take(noted, member.pid, stats[member.pid])
    families = {pid: session_of(pid) for pid in taken}
    apart_pids: set[int] = set()
    for pid in sorted(stats, key=lambda pid: stats[pid].start_ticks):
        above = _taken_above(pid, stats, families)
        if pid in taken or above is None or stats[pid].state in "ZX":
            continue
        if session_of(pid) in (families[above], 0):
            _take(noted, pid, stats[pid])
        else:
            apart_pids.add(pid)
    # The outermost is enough: who looks for it finds what it started.
    noted.left = [
        f"pid {pid} ({stats[pid].name})" for pid in sorted(apart_pids) if stats[pid].parent not in apart_pids
    ]
    return noted


def ask_to_raise(members: list[JobProcess], pages: str, sentence: str, within_s: float) -> list[int]:
    """Leave each of them a letter, and wait until they are gone; returns the pids that are not. Blocks.

    A rank that waits inside its framework runs no handler of a signal. Its probe takes the sentence out of the mailbox
    and has the framework raise it where the rank waits: then it is in the user's traceback.
    """
    asked = [member for member in members if _leave_letter(member, pages, f"abort {sentence}")]
    return _wait_for(asked, within_s)


def _leave_letter(member: JobProcess, pages: str, letter: str) -> bool:
    try:
        layout.write_mail(os.path.join(pages, layout.page_name(member.pid, member.start_ticks)), letter)
    except OSError as error:
        print(f"ddetect agent: could not write to rank {member.rank}: {error}", file=sys.stderr)
        return False
    return True


def _wait_for(members: list[JobProcess], within_s: float) -> list[int]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and any(is_alive(m.pid, m.start_ticks) for m in members):
        time.sleep(_LOOK_EVERY_S)
    return [m.pid for m in members if is_alive(m.pid, m.start_ticks)]


def end_noted(
    noted: Noted,
    grace_s: float,
    newcomers: Callable[[], Iterable[JobProcess]] = tuple,
    in_a_hurry: Callable[[], bool] = bool,
) -> RanksEnded:
    """SIGTERM to the ranks, SIGKILL after `grace_s`; then the same, more quickly, to all that worked for them. Blocks.

    `newcomers` tells which loader workers and children there are by then: one may have been born since all were noted.
    Once we are `in_a_hurry` (the launcher has seen its job end, and ends us) nobody is waited for any more.
    """
    killed: list[int] = []
    ranks = [one for one in noted.held if one.is_rank]
    killed += _end(ranks, grace_s, in_a_hurry)
    known = {(one.pid, one.start_ticks) for one in noted.held}
    parents = {one.pid for one in noted.held}
    for member in newcomers():
        if member.key not in known and member.parent in parents and not member.gone:
            stat = read_stat(member.pid)
            if stat is not None and stat.start_ticks == member.start_ticks:
                _take(noted, member.pid, stat)
    killed += _end(
        [one for one in noted.held if not one.is_rank and not one.tidies], HELPERS_WITHIN_S, in_a_hurry
    )
    killed += _end([one for one in noted.held if one.tidies], HELPERS_WITHIN_S, in_a_hurry)
    return RanksEnded(
        tuple(killed), tuple(_describe(one) for one in noted.held if one.lives), tuple(noted.left)
    )


def _end(those: list[Held], grace_s: float, in_a_hurry: Callable[[], bool]) -> list[int]:
    """Returns the pids that had to be killed."""
    for one in those:
        if one.lives:
            _send(one, signal.SIGTERM)
            if (stat := read_stat(one.pid)) is not None and stat.state == "T":
                _send(one, signal.SIGCONT)  # a stopped process gets its signal when it goes on
    _wait(those, grace_s, in_a_hurry)
    stubborn = [one for one in those if one.lives]
    for one in stubborn:
        _send(one, signal.SIGKILL)
    _wait(stubborn, _DIES_WITHIN_S)
    return [one.pid for one in stubborn if not one.lives]


def _wait(those: list[Held], within_s: float, in_a_hurry: Callable[[], bool] = bool) -> None:
    began = time.monotonic()
    while any(one.lives for one in those):
        waited_s = time.monotonic() - began
        if waited_s > within_s or (in_a_hurry() and waited_s > _HURRIED_S):
            return
        time.sleep(_LOOK_EVERY_S)


def _is(member: JobProcess, stats: dict[int, Stat]) -> bool:
    stat = stats.get(member.pid)
    return stat is not None and stat.start_ticks == member.start_ticks and stat.state not in "ZX"


def _take(noted: Noted, pid: int, stat: Stat, *, is_rank: bool = False) -> None:
    tidies = not is_rank and any(name in " ".join(read_cmdline(pid)) for name in _TRACKERS)
    try:
        handle: int | None = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:
        handle = None
    if is_alive(pid, stat.start_ticks):
        noted.held.append(Held(pid, stat.start_ticks, stat.name, handle, is_rank, tidies))
    elif handle is not None:
        os.close(handle)


def _taken_above(pid: int, stats: dict[int, Stat], families: dict[int, int]) -> int | None:
    """The nearest ancestor that is ours to end for its own sake; None when there is none."""
    for _ in range(64):
        stat = stats.get(pid)
        if stat is None or stat.parent <= 1:
            return None
        pid = stat.parent
        if pid in families:
            return pid
    return None


def _describe(one: Held) -> str:
    stat = read_stat(one.pid)
    return f"pid {one.pid} ({one.name}, {stat.state if stat is not None else '?'})"


def _send(one: Held, number: signal.Signals) -> None:
    if one.handle is None:
        return
    try:
        signal.pidfd_send_signal(one.handle, number)
    except ProcessLookupError:
        pass  # it ended by itself
    except OSError as error:
        print(f"ddetect agent: could not send {number.name} to pid {one.pid}: {error}", file=sys.stderr)
