"""Whom this process works for: the processes above it that have a page.

Enters: the run directory, /proc. Leaves: the pid and rank of the nearest one that counts. Never here: the page of this
process; an exception because one of them is gone.
"""

from __future__ import annotations

import os
from typing import Iterator, Tuple

from ddetect_probe import page, rundir

_MOST = 8
_IN_A_GROUP = (page.PG_JOINING, page.PG_READY, page.PG_LEAVING)


def rank_of_ancestor(folder: str) -> Tuple[int, int]:
    """(pid, rank) of the process of a rank that this one descends from, (0, -1) if from none."""
    for pid, header in _ancestors(folder):
        if header[page.S_ROLE] != page.ROLE_OTHER:
            return pid, header[page.S_RANK]
    return 0, -1


def works_for_a_member(folder: str) -> bool:
    """Whether this process descends from a rank that is in a process group itself.

    What such a process joins is a group of its own (a checkpoint writer, an evaluation). The parent of mp.spawn joins
    none, whatever RANK it was started with: there the children are the ranks.
    """
    return any(
        header[page.S_ROLE] == page.ROLE_RANK and header[page.S_PG_STATE] in _IN_A_GROUP
        for _, header in _ancestors(folder)
    )


def _ancestors(folder: str) -> Iterator[Tuple[int, Tuple[int, ...]]]:
    """Each living process above this one that has a page, with the page's header."""
    pid = os.getppid()
    for _ in range(_MOST):
        if pid <= 1:
            return
        try:
            seen = page.Page(os.path.join(folder, rundir.PAGES, page.page_name(pid, page.start_ticks(pid))))
            header = seen.header()
            seen.close()
            yield pid, header
        except (OSError, ValueError):
            pass  # it has none
        pid = _parent_of(pid)


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
