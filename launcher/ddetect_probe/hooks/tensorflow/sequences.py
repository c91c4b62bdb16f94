"""How far each lane has come in the sequence of a group's collectives.

Enters: instance keys, as TensorFlow hands them out when a call begins. Leaves: the page's SEQS rows and its groups. A
key is open until the call that took it returns; a call takes all its keys before anything runs. Never here: a job of
one process, where nobody else could be behind; a lock (rows are one thread's at a time but for a moment, and a torn
row reads as none).
"""

from __future__ import annotations

import json
from _thread import get_ident
from time import monotonic_ns
from typing import Dict, List, Optional, Tuple

from ddetect_probe import page, state


class Row:
    """A lane in a group."""

    __slots__ = ("at", "counter", "enqueued", "group", "lane", "open", "since_ns")

    def __init__(self, at: int, lane: int, group: int) -> None:
        self.at = at
        self.lane = lane
        self.group = group
        self.counter = self.enqueued = self.since_ns = 0
        self.open: Dict[int, int] = {}  # by ident: the first key that the call in this thread took

    def write(self) -> None:
        """Put it into the page, in one go."""
        oldest = min(list(self.open.values()), default=0)
        self.counter += 2
        page.pack_sequence(
            state.raw, self.at, self.counter, self.lane + 1, self.group, self.enqueued, oldest,
            oldest - 1 if oldest else self.enqueued, self.since_ns, 0,
        )  # fmt: skip


opened: Dict[int, List[Row]] = {}  # by ident: the rows in which that thread has open keys
_rows: Dict[Tuple[int, str], Optional[Row]] = {}  # by group key and device; None: not one to be shown
_groups: Dict[int, int] = {}  # our number of each group key
_prefix = ""  # of the devices that work for a cluster; "": there is none
_backend = ""
_members = ""


def join(task_type: str, index: int, backend: str, workers: int) -> None:
    """This process is a task of a cluster: collectives of its devices are others' concern from now on."""
    global _prefix, _backend, _members
    _prefix = f"/job:{task_type}/replica:0/task:{index}/" if workers > 1 else ""
    _backend = backend
    _members = f"0-{workers - 1}"
    _rows.clear()


def take(group_key: int, device: str, key: int) -> None:
    """A collective has got its number, and is about to begin."""
    where = (group_key, device)
    row = _rows[where] if where in _rows else _new(where)
    if row is None:
        return
    me = get_ident()
    row.enqueued, row.since_ns = key, monotonic_ns()
    if me not in row.open:
        row.open[me] = key
        opened.setdefault(me, []).append(row)
    row.write()


def close(ident: int) -> None:
    """The call in that thread is over, and with it every collective that it began."""
    for row in opened.pop(ident, ()):
        row.open.pop(ident, None)
        row.write()


def forget() -> None:
    """In a forked child: it is in no collective."""
    opened.clear()
    _rows.clear()
    _groups.clear()


def _new(where: Tuple[int, str]) -> Optional[Row]:
    group_key, device = where
    lane = device.rpartition(":")[2]
    used = sum(row is not None for row in _rows.values())
    row = None
    if _prefix and device.startswith(_prefix) and lane.isdigit() and used < page.SEQS_ROWS:
        at = (page.SEQS_AT + used * page.SEQS_WIDTH) * 8
        known = group_key in _groups
        row = Row(at, int(lane), _groups.setdefault(group_key, len(_groups)))
        if not known:
            rows = [(number, str(key), "", _backend, _members) for key, number in _groups.items()]
            state.text("groups", json.dumps(rows, separators=(",", ":")))
    _rows[where] = row
    return row
