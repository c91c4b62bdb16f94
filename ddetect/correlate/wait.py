"""One operation and who is blocked in it, and what a rank's own sighting says about being elsewhere.

Enters: a Scene and ranks. Leaves: a `Wait`; ranks split into those that are elsewhere and those of which nothing is
known. Never here: finding the operations (waits, point_to_point, rendezvous).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddetect.correlate.collectives import Standing
from ddetect.correlate.scene import ELSEWHERE, Bools, Scene
from ddetect.frameworks.framework import Needs
from ddetect.frameworks.kinds import OWN_BUSINESS, Kind, Posture
from ddetect.model import UNKNOWN, Group, Ints, Phase

IN_COMMUNICATION = (Phase.COLLECTIVE, Phase.P2P)


@dataclass(frozen=True, eq=False)
class Wait:
    """An operation and the ranks that are blocked in it; ranks in numbers, sorted."""

    on: str
    waiters: tuple[int, ...]
    missing: tuple[int, ...] = ()  # have certainly not entered
    presumed: tuple[int, ...] = ()  # recorder unread, but their own sighting says they are elsewhere
    blind: tuple[int, ...] = ()  # nothing known
    entered: tuple[int, ...] = ()
    root: int = UNKNOWN
    group: Group | None = None
    seq: int | None = None
    standing: Standing | None = None
    p2p: bool = False
    needs: Needs = Needs.ALL  # who of the missing has to come
    doubtful: bool = False  # the ring dropped something, or the members are not certain
    joins: bool = False  # the job's first meeting: its members are not in a group yet

    @property
    def any_one(self) -> bool:
        """One of the missing is enough."""
        return self.needs is Needs.ANY

    @property
    def owed(self) -> tuple[int, ...]:
        """Who has to come first: the root of a rooted operation, if that is missing; else everybody who is."""
        if self.needs is Needs.ROOT and self.root in (*self.targets, *self.blind):
            return (self.root,) if self.root in self.targets else ()
        return self.targets

    @property
    def targets(self) -> tuple[int, ...]:
        """Whom it waits for."""
        return tuple(sorted({*self.missing, *self.presumed}))

    @property
    def label(self) -> str:
        """How a sentence calls it: "all_reduce #412 of default_pg"."""
        number = f" #{self.seq}" if self.seq else ""
        return f"{self.on}{number}" + (f" of {self.group.label}" if self.group else "")


def minds_own_business(scene: Scene) -> Bools:
    """Ranks whose host is plainly elsewhere, whatever their device still has to do."""
    return np.asarray(
        np.isin(scene.kind, tuple(OWN_BUSINESS))
        | (scene.kind == Kind.USER)
        & np.isin(scene.posture, (Posture.ASLEEP, Posture.FILE, Posture.TERMINAL, Posture.DISK))
    )


def presume(scene: Scene, ranks: Ints) -> tuple[Ints, Ints]:
    """Split ranks with unread recorders into those that are elsewhere by their own sighting and the blind ones."""
    at = np.array([scene.position(int(rank)) for rank in ranks], np.int64)
    known = at >= 0
    strangers = ranks[~known]
    at, ranks = at[known], ranks[known]
    kind, phase = scene.kind[at], scene.phase[at]
    talks = np.isin(kind, (Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD, Kind.DEVICE_SYNC, Kind.STEP)) | np.isin(
        phase, IN_COMMUNICATION
    )
    # A rank that nobody has seen is no absentee: the operation is of a group that exists, so its process does too.
    elsewhere = scene.gone[at] | scene.frozen[at]
    # On a host backend a page tells that the rank is in no call; a device's work is in no phase.
    vague = scene.may_wait_for_device[at] & (scene.on_gpu | (phase == UNKNOWN))
    elsewhere |= (kind != Kind.UNREAD) & ~talks & ~scene.asks_lock[at] & ~vague
    told = (phase != UNKNOWN) | (not scene.framework.handles)
    elsewhere |= (kind != Kind.UNREAD) & scene.asks_lock[at] & told & ~talks
    elsewhere |= (kind == Kind.UNREAD) & np.isin(phase, ELSEWHERE)
    elsewhere |= (kind == Kind.UNREAD) & (scene.posture[at] == Posture.DISK)
    aside = scene.aside[at]
    elsewhere &= ~aside
    talks |= aside
    return ranks[elsewhere], np.concatenate([ranks[~elsewhere & ~talks], strangers])


def in_step(scene: Scene) -> Bools:
    """Members inside a compiled step that Python cannot see into."""
    return np.asarray(((scene.kind == Kind.STEP) | _fed(scene)) & ~scene.frozen)


def elsewhere_in_step(scene: Scene) -> Bools:
    """Members inside a step that plainly do something of their own there: Python that the step called, or frozen."""
    return np.asarray(np.isin(scene.kind, (*OWN_BUSINESS, Kind.USER)) & ~_fed(scene) | scene.frozen)


def _fed(scene: Scene) -> Bools:
    """Members whose pipeline is at work while they are in a step that got its batch before: it makes the next one."""
    return np.asarray((scene.kind == Kind.FETCH) & (scene.phase == Phase.STEP) & scene.fed_by_hand)


def unheard(scene: Scene) -> Bools:
    """Ranks that must exist and of which there is nothing: no process, no departure, no word why."""
    return np.asarray(~scene.live & ~scene.gone & ~scene.said_unread & (scene.in_world))


def every_node_is_heard(scene: Scene) -> bool:
    """Whether the nodes that are heard should have all ranks of the world: then who has no process was not started."""
    roster = scene.snapshot.roster
    if not len(roster) or (roster.local_world == UNKNOWN).any():
        return False
    sizes = {int(node): int(size) for node, size in zip(roster.node, roster.local_world, strict=True)}
    return sum(sizes.values()) >= scene.count_ranks


def numbers(ranks: Ints) -> tuple[int, ...]:
    """Plain numbers, sorted."""
    return tuple(sorted(int(rank) for rank in ranks))
