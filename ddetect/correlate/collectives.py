"""How far each member of each group has come. Progress and Ops enter; Standings and calls per slot leave.

A group is (backend, name, members). On a host backend a rank that entered runs the operation; elsewhere "enqueued"
says nothing about the device. Never here: who is blocked (waits.py), who is at fault (rules/).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ddetect.frameworks.framework import Framework
from ddetect.model import UNKNOWN, CallSpec, Group, Ints, Snapshot

Bools = npt.NDArray[np.bool_]
_MOST_RANKS = 1 << 24


@dataclass(frozen=True, eq=False)
class Standing:
    """One group, its members' counters in columns. `read` False: that member's recorder was not read."""

    group: Group
    ids: tuple[int, ...]  # the indices in Comms.groups that mean this group
    members: Ints
    sure_members: bool  # False: the members are only those that were seen in it
    read: Bools
    dropped: Bools  # read, but this group's operations may have fallen out of the ring
    enqueued: Ints
    started: Ints
    completed: Ints
    oldest_open: Ints
    on_device: bool  # the host runs ahead: a stream waits, not the thread
    announced: bool = False  # a number says that a call began which will enter, not that it entered


@dataclass(frozen=True, eq=False)
class Callers:
    """Ranks that put the same call from the same line into one sequence number."""

    spec: CallSpec
    ranks: Ints  # sorted
    frame: int  # index into Comms.frames or UNKNOWN


def distinct(ranks: Ints) -> Ints:
    """The ranks there are, sorted, without those nobody knows. A table beats sorting ten times over."""
    ranks = ranks[ranks >= 0]
    if not len(ranks) or ranks.max() >= _MOST_RANKS:  # a snapshot from elsewhere may say anything
        return np.unique(ranks)
    there = np.zeros(int(ranks.max()) + 1, bool)
    there[ranks] = True
    return np.flatnonzero(there)


def _same_groups(snapshot: Snapshot) -> list[tuple[Group, tuple[int, ...]]]:
    """Fold the groups that are one: equal identity, or no members known and only one of that name."""
    groups = snapshot.comms.groups
    by_key: dict[tuple[str, str, tuple[int, ...]], list[int]] = {}
    for index, group in enumerate(groups):
        by_key.setdefault((group.backend, group.name, tuple(sorted(group.members))), []).append(index)
    for backend, name, members in list(by_key):
        if members:
            continue
        full = [key for key in by_key if key[:2] == (backend, name) and key[2]]
        if len(full) == 1:
            by_key[full[0]] += by_key.pop((backend, name, members))
    return [
        (next((groups[i] for i in ids if groups[i].desc), groups[ids[0]]), tuple(ids))
        for ids in by_key.values()
    ]


def standings(snapshot: Snapshot, everyone: Ints, framework: Framework) -> tuple[Standing, ...]:
    """One Standing per group that anybody has used."""
    progress = snapshot.comms.progress
    told = distinct(progress.member)
    wrapped = distinct(progress.member[progress.first_kept > 1])
    found = []
    order = np.argsort(progress.group, kind="stable")
    sorted_groups = progress.group[order]
    for group, ids in _same_groups(snapshot):
        rows = np.concatenate(
            [
                order[np.searchsorted(sorted_groups, i) : np.searchsorted(sorted_groups, i, "right")]
                for i in ids
            ]
        )
        members = distinct(np.array(group.members, np.int64))
        sure = bool(len(members))
        if not sure and framework.has_everyone(group) and len(everyone):
            members, sure = everyone, True
        elif not sure:
            members = distinct(progress.member[rows])
        rows = rows[np.isin(progress.member[rows], members)]
        at = np.searchsorted(members, progress.member[rows])
        columns: dict[str, Ints] = {}
        for name in ("enqueued", "started", "completed", "oldest_open"):
            columns[name] = np.zeros(len(members), np.int64)
            columns[name][at] = getattr(progress, name)[rows]
        has_row = np.zeros(len(members), bool)
        has_row[at] = True
        read = np.isin(members, told)
        dropped = read & ~has_row & np.isin(members, wrapped)
        device = framework.on_device(group.backend)
        told_early = framework.announces(group.backend)
        found.append(
            Standing(
                group, ids, members, sure, read, dropped, on_device=device, announced=told_early, **columns
            )
        )  # fmt: skip
    return tuple(found)


def calls_at(snapshot: Snapshot, standing: Standing, seq: int) -> list[Callers]:
    """What was put into this sequence number, as far as the recorders still know: one Callers per kind of call."""
    ops = snapshot.comms.ops
    at = np.flatnonzero((ops.seq == seq) & np.isin(ops.group, standing.ids))
    at = at[(ops.call[at] >= 0) & (ops.call[at] < len(snapshot.comms.calls))]
    frame = np.where(
        (ops.frame[at] >= 0) & (ops.frame[at] < len(snapshot.comms.frames)), ops.frame[at], UNKNOWN
    )
    width = len(snapshot.comms.frames) + 1
    kinds, which = np.unique(ops.call[at] * width + frame + 1, return_inverse=True)
    return [
        Callers(snapshot.comms.calls[kind // width], distinct(ops.member[at[which == n]]), kind % width - 1)
        for n, kind in enumerate(kinds.tolist())
    ]
