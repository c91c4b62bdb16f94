"""What ranks have posted to each other: which send meets which receive, and whose silence proves anything.

Enters: a Scene. Leaves: `Posted`, which is asked per operation and per group. Pages tell what was posted on gloo,
recorders what was posted on a device, and a stack only the call that a rank is in: what it posted before is not known.
Never here: who is blocked, who is at fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ddetect.correlate.scene import Bools, Scene
from ddetect.model import UNKNOWN, Group, Ints, P2PKind

PAGE_ROWS = 32
"""A page has room for this many open operations: with so many in it, the next one is nowhere to be seen."""

RECORDER_ROWS = 64
"""And so many are kept of a recorder."""


class Met(IntEnum):
    """Whether an operation has found its other side."""

    NO = 0
    MAYBE = 1  # there is one, and its group, tag or peer could not be told
    YES = 2


class Posted:
    """The open sends and receives of a snapshot."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        rows = scene.snapshot.comms.p2p
        self._by_pair: defaultdict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
        self._sends_to: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for rank, kind, peer, group, tag in zip(
            *(column.tolist() for column in (rows.member, rows.kind, rows.peer, rows.group, rows.tag)),
            strict=True,
        ):
            self._by_pair[rank, kind, peer].append((group, tag))
            if kind == P2PKind.SEND:
                self._sends_to[peer].append((rank, group, tag))
        self._standing_of = {index: n for n, one in enumerate(scene.standings) for index in one.ids}
        self._backends = _backends(scene.snapshot.comms.groups)
        self._same: dict[tuple[int, int], Met] = {}
        self._full, self._recorder_full = table_full(scene), table_full(scene, RECORDER_ROWS)
        samples = scene.snapshot.samples
        # Rows come with the newest look: a page that is known from an older beat proves no absence.
        self._looked_at = (
            np.isin(scene.rank, samples[-1].rank) if samples else np.zeros(len(scene.ranks), bool)
        )

    def group(self, number: int) -> Group | None:
        """The group of a row, None when nobody told."""
        groups = self._scene.snapshot.comms.groups
        return groups[number] if 0 <= number < len(groups) else None

    def group_key(self, number: int) -> int:
        """The same number for all rows that certainly mean one group; UNKNOWN when nobody told."""
        return self._standing_of.get(number, UNKNOWN)

    def on_device(self, number: int) -> bool:
        """Whether the group has a backend that runs on a device: there the host posts ahead."""
        return any(map(self._scene.framework.on_device, self._backends_of(number)))

    def _backends_of(self, number: int) -> frozenset[str]:
        return self._backends[number] if 0 <= number < len(self._backends) else frozenset()

    # ------------------------------------------------------------ meeting

    def answer(self, rank: int, kind: P2PKind, peer: int, number: int, tag: int) -> Met:
        """Whether the peer has posted the other side of this operation."""
        sides = (
            [(P2PKind.SEND, rank)]
            if kind is P2PKind.RECV
            else [(P2PKind.RECV, rank), (P2PKind.RECV_ANY, UNKNOWN)]
        )
        met = Met.NO
        for other, towards in sides:
            for group, its_tag in self._by_pair.get((peer, other, towards), ()):
                met = max(met, self._fit(rank, number, tag, peer, group, its_tag))
        untold = P2PKind.SEND if kind is P2PKind.RECV else P2PKind.RECV
        for group, its_tag in self._by_pair.get((peer, untold, UNKNOWN), ()):
            met = max(met, min(Met.MAYBE, self._fit(rank, number, tag, peer, group, its_tag)))
        return met

    def sender_to(self, rank: int, number: int, tag: int) -> tuple[Met, int]:
        """Whether anybody has posted a send that a receive from anyone takes, and who."""
        best, who = Met.NO, UNKNOWN
        for towards, most in ((rank, Met.YES), (UNKNOWN, Met.MAYBE)):
            for sender, group, its_tag in self._sends_to.get(towards, ()):
                met = min(most, self._fit(rank, number, tag, sender, group, its_tag))
                if sender != rank and met > best:
                    best, who = met, sender
        return best, who

    def _fit(self, rank: int, number: int, tag: int, other: int, its_number: int, its_tag: int) -> Met:
        pair = (number, its_number)
        fit = self._same[pair] if pair in self._same else self._same.setdefault(pair, self._same_group(*pair))
        if fit is Met.NO or tag == its_tag or self.on_device(number):
            return fit  # devices have no tags
        unsure = any(
            of == 0 and not self._has_page(who) for who, of in ((rank, tag), (other, its_tag))
        )  # a stack's 0 is also a tag that could not be read
        return Met.MAYBE if unsure else Met.NO

    def _has_page(self, rank: int) -> bool:
        at = self._scene.position(rank)
        return at >= 0 and bool(self._scene.phase[at] != UNKNOWN)

    def _same_group(self, one: int, other: int) -> Met:
        if self.group_key(one) == self.group_key(other):
            return Met.YES
        a, b = self.group(one), self.group(other)
        if a is None or b is None:
            return Met.MAYBE
        if a.name != b.name or (a.members and b.members and set(a.members) != set(b.members)):
            return Met.NO
        # A stack tells the default group, and neither its backend nor its members.
        return Met.YES if "" in (a.backend, b.backend) else Met.MAYBE

    # ------------------------------------------------------------ silence

    def told(self, ranks: Ints, number: int) -> Bools:
        """Ranks of which everything was read that they could have posted in this group: their silence is proof."""
        scene = self._scene
        at = np.minimum(np.searchsorted(scene.ranks, ranks), len(scene.ranks) - 1)
        told = (scene.ranks[at] == ranks) & self._looked_at[at]
        device = [scene.framework.on_device(backend) for backend in self._backends_of(number)]
        if not all(device) or not device:
            told &= (scene.phase[at] != UNKNOWN) & ~self._full[at]
        if any(device):
            told &= scene.progress_read[at] & ~self._recorder_full[at]
            key = self.group_key(number)
            if key != UNKNOWN:
                standing = scene.standings[key]
                told &= ~np.isin(ranks, standing.members[standing.dropped])
        return np.asarray(told)


def table_full(scene: Scene, room: int = PAGE_ROWS) -> Bools:
    """Ranks with as many open operations as there is room for: they may have more, which nobody sees."""
    ranks = scene.snapshot.comms.p2p.member
    return np.bincount(scene.positions(ranks[ranks >= 0]), minlength=len(scene.ranks)) >= room


def _backends(groups: Sequence[Group]) -> list[frozenset[str]]:
    """Per group all backends of its process group: a page files "cpu:gloo,cuda:nccl" under the first."""
    exact: defaultdict[tuple[str, tuple[int, ...]], set[str]] = defaultdict(set)
    of_name: defaultdict[str, set[str]] = defaultdict(set)
    keys = [(group.name, tuple(sorted(group.members))) for group in groups]
    for group, key in zip(groups, keys, strict=True):
        exact[key].add(group.backend)
        of_name[group.name].add(group.backend)
    return [
        frozenset(exact[name, members] | exact[name, ()] if members else of_name[name])
        for name, members in keys
    ]
