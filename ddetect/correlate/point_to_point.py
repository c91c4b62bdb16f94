"""Sends, receives and monitored barriers that ranks are blocked in. A Scene enters, Waits leave.

A peer has certainly not posted only where all that it could have posted was read. One that was not read is presumed by
its own sighting, or blind; one that is held in another call is missing as far as its stack tells (`doubtful`).
Never here: collectives; an operation that is posted and not waited for; which send meets which receive (posted.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddetect.correlate.posted import Met, Posted
from ddetect.correlate.scene import Bools, Scene
from ddetect.correlate.wait import Wait, minds_own_business, numbers, presume
from ddetect.frameworks.framework import Needs
from ddetect.frameworks.kinds import Kind
from ddetect.model import UNKNOWN, Group, Names, P2PKind
from ddetect.report.words import name_members


@dataclass(frozen=True, slots=True)
class Blocked:
    """A rank that is blocked in an operation."""

    rank: int
    kind: P2PKind
    peer: int
    group: int
    tag: int


@dataclass(frozen=True, slots=True)
class Absent:
    """Ranks that did not answer, by what is known of them; whoever is in none of these may have."""

    sure: frozenset[int]
    held: frozenset[int]  # in another call; what they posted before was not read
    presumed: frozenset[int]
    blind: frozenset[int]


def point_to_point_waits(scene: Scene, host_held: Bools) -> list[Wait]:
    """What each rank waits for from a peer. Marks those whose host is held."""
    if not len(scene.snapshot.comms.p2p):
        return []
    posted, own = Posted(scene), minds_own_business(scene)
    blocked = _blocked(scene, posted, own)
    host_held[scene.positions(np.array([one.rank for one in blocked], np.int64))] = True
    by_group: dict[int, list[Blocked]] = {}
    anyone: dict[tuple[int, int], list[Blocked]] = {}
    barriers: dict[int, list[int]] = {}
    for one in blocked:
        if one.kind is P2PKind.MONITORED_BARRIER:
            key = posted.group_key(one.group)
            barriers.setdefault(key, []).append(one.rank)
        elif one.kind is P2PKind.RECV_ANY:
            anyone.setdefault((one.group, one.tag), []).append(one)
        else:
            by_group.setdefault(one.group, []).append(one)
    waits = []
    for number, several in by_group.items():
        waits += _exchanges(scene, posted, own, host_held, number, several)
    for (number, _), several in anyone.items():
        waits += _from_anyone(scene, posted, own, host_held, number, several)
    return waits + _barriers(scene, posted, barriers)


def _blocked(scene: Scene, posted: Posted, own: Bools) -> list[Blocked]:
    rows, found = scene.snapshot.comms.p2p, []
    for i in np.flatnonzero((rows.waiting > 0) & (rows.member >= 0)).tolist():
        one = Blocked(
            int(rows.member[i]),
            P2PKind(int(rows.kind[i])),
            int(rows.peer[i]),
            int(rows.group[i]),
            int(rows.tag[i]),
        )
        position = scene.position(one.rank)
        if scene.gone[position] or scene.frozen[position]:
            continue
        group = posted.group(one.group)
        if group is not None and scene.framework.on_device(group.backend) and own[position]:
            continue  # posted on the device, outstanding; its host is elsewhere and does not wait for it
        found.append(one)
    return found


# ---------------------------------------------------------------- one peer


def _exchanges(
    scene: Scene, posted: Posted, own: Bools, host_held: Bools, number: int, several: list[Blocked]
) -> list[Wait]:
    group = posted.group(number)
    met = [
        Met.MAYBE if one.peer == UNKNOWN else posted.answer(one.rank, one.kind, one.peer, number, one.tag)
        for one in several
    ]
    alone = {one.peer for one, found in zip(several, met, strict=True) if found is Met.NO}
    absent = _absent(scene, posted, own, host_held, number, alone)
    missing = absent.sure | absent.held
    on_device = posted.on_device(number)
    waits = []
    for one, found in zip(several, met, strict=True):
        peer = {one.peer} if found is Met.NO else set()
        waits.append(
            Wait(
                _words(one, scene.names, on_device=on_device),
                (one.rank,),
                tuple(peer & missing),
                tuple(peer & absent.presumed),
                tuple(peer & absent.blind),
                entered=(one.peer,) if found is Met.YES else (),
                group=group,
                p2p=True,
                # From its stack, or the peer's: what it posted before is not known.
                doubtful=bool(scene.phase[scene.position(one.rank)] == UNKNOWN or peer & absent.held),
            )
        )
    return waits


def _words(one: Blocked, names: Names, *, on_device: bool) -> str:
    tag = f" (tag {one.tag})" if one.tag and not on_device else ""
    if one.peer == UNKNOWN:
        return ("send" if one.kind is P2PKind.SEND else "recv") + tag
    peer = name_members((one.peer,), names)
    return (f"send to {peer}" if one.kind is P2PKind.SEND else f"recv from {peer}") + tag


def _absent(
    scene: Scene, posted: Posted, own: Bools, host_held: Bools, number: int, ranks: Iterable[int]
) -> Absent:
    """Sort ranks whose answer was not found by what their silence is worth."""
    asked = np.array(sorted(ranks), np.int64)
    told = posted.told(asked, number)
    silent = asked[~told]
    elsewhere, dark = presume(scene, silent)
    presumed, blind = set(numbers(elsewhere)), set(numbers(dark))
    blind |= {rank for rank in silent.tolist() if scene.position(rank) < 0}
    on_device = posted.on_device(number)
    held = set()
    for rank in set(silent.tolist()) - blind:
        at = scene.position(rank)
        ended = scene.gone[at] or scene.frozen[at] or not scene.live[at]
        if on_device and rank in presumed and not (own[at] or ended):
            presumed.discard(rank)  # busy at a line of the user's, it may wait there for its stream
            blind.add(rank)
        elif rank not in presumed and (
            host_held[at] or (scene.kind[at] == Kind.COLLECTIVE and not on_device)
        ):
            held.add(rank)
    return Absent(frozenset(numbers(asked[told])), frozenset(held), frozenset(presumed), frozenset(blind))


# ---------------------------------------------------------------- many peers


def _from_anyone(
    scene: Scene, posted: Posted, own: Bools, host_held: Bools, number: int, several: list[Blocked]
) -> list[Wait]:
    """Receives from any source: one of the others is enough, so all of them must be known to be absent."""
    group = posted.group(number)
    alone, waits = [], []
    for one in several:
        found, sender = posted.sender_to(one.rank, number, one.tag)
        if found is Met.NO:
            alone.append(one.rank)
        else:
            entered = (sender,) if found is Met.YES else ()
            waits.append(Wait("recv", (one.rank,), entered=entered, group=group, p2p=True))
    if not alone:
        return waits
    members, sure = _members(scene, group)
    others = set(members) - set(alone if len(alone) == 1 else ())
    absent = _absent(scene, posted, own, host_held, number, others)
    missing, known = absent.sure | absent.held, absent.sure | absent.held | absent.presumed
    if others - known:
        missing, known = frozenset(), frozenset()
    waits.append(
        Wait(
            "recv",
            tuple(sorted(alone)),
            tuple(sorted(missing)),
            tuple(sorted(absent.presumed & known)),
            tuple(sorted(absent.blind)),
            group=group,
            p2p=True,
            needs=Needs.ANY if len(known) > 1 else Needs.ALL,
            doubtful=not sure or bool(absent.held & known),
        )
    )
    return waits


def _members(scene: Scene, group: Group | None) -> tuple[tuple[int, ...], bool]:
    """The ranks of a group, and whether that is certain."""
    if group is not None and group.members:
        return group.members, True
    return numbers(scene.members[scene.in_world]), group is not None and scene.framework.has_everyone(group)


def _barriers(scene: Scene, posted: Posted, barriers: dict[int, list[int]]) -> list[Wait]:
    """Who does not come to a monitored barrier. Whoever is in one of a group that nobody told may be in any."""
    everywhere = {rank for ranks in barriers.values() for rank in ranks}
    waits = []
    for key, ranks in barriers.items():
        group = scene.standings[key].group if key != UNKNOWN else None
        members, sure = _members(scene, group)
        inside = everywhere if key == UNKNOWN else {*ranks, *barriers.get(UNKNOWN, ())}
        outside = np.array([rank for rank in members if rank not in inside], np.int64)
        # Without a page its row cannot be seen: such a rank is presumed by its stack, never accused by silence.
        told = posted.told(outside, scene.standings[key].ids[0] if key != UNKNOWN else UNKNOWN)
        presumed, blind = presume(scene, outside[~told]) if len(outside) else (outside, outside)
        waiters = tuple(sorted(ranks))
        waits.append(
            Wait(
                "monitored_barrier", waiters, numbers(outside[told]), numbers(presumed), numbers(blind),
                () if len(outside) else waiters, group=group, p2p=True, doubtful=not sure,
            )
        )  # fmt: skip
    return waits
