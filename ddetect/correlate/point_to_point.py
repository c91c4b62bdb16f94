"""Sends, receives and monitored barriers that ranks are blocked in. A Scene enters, Waits leave.

Never here: collectives; an operation that is posted and not waited for.
"""

from __future__ import annotations

import numpy as np

from ddetect.correlate.collectives import HOST_BACKENDS
from ddetect.correlate.scene import Bools, Scene
from ddetect.correlate.wait import Wait, minds_own_business, numbers, presume
from ddetect.model import UNKNOWN, P2PKind


def point_to_point_waits(scene: Scene, host_held: Bools) -> list[Wait]:
    """What each rank waits for from a peer. Marks those whose host is held."""
    rows = scene.snapshot.p2p
    posted = {
        (int(rows.rank[i]), P2PKind(int(rows.kind[i])), int(rows.peer[i]), int(rows.group[i]))
        for i in range(len(rows))
    }
    receives_any = {(rank, group) for rank, kind, _, group in posted if kind is P2PKind.RECV_ANY}
    waits = []
    barriers: dict[int, list[int]] = {}
    for i in np.flatnonzero(rows.waiting > 0):
        rank, kind = int(rows.rank[i]), P2PKind(int(rows.kind[i]))
        peer, number = int(rows.peer[i]), int(rows.group[i])
        position = scene.position(rank)
        if position < 0 or scene.gone[position] or scene.stopped[position]:
            continue
        group = scene.snapshot.groups[number] if 0 <= number < len(scene.snapshot.groups) else None
        if group is not None and group.backend not in HOST_BACKENDS and minds_own_business(scene)[position]:
            continue  # posted on the device, outstanding; its host is elsewhere and does not wait for it
        if kind is P2PKind.MONITORED_BARRIER:
            barriers.setdefault(number, []).append(rank)
            continue
        host_held[position] = True
        if kind is P2PKind.RECV_ANY or peer == UNKNOWN:
            others = group.members if group and group.members else tuple(int(r) for r in scene.ranks)
            missing = tuple(r for r in others if r != rank and (r, P2PKind.SEND, rank, number) not in posted)
            missing = missing if len(missing) == len(others) - (rank in others) else ()
            waits.append(Wait("recv", (rank,), missing, group=group, p2p=True, any_one=len(missing) > 1))
            continue
        answer = P2PKind.RECV if kind is P2PKind.SEND else P2PKind.SEND
        met = (peer, answer, rank, number) in posted or (
            kind is P2PKind.SEND and (peer, number) in receives_any
        )
        on = "send" if kind is P2PKind.SEND else "recv"
        words = f"{on} to rank {peer}" if on == "send" else f"{on} from rank {peer}"
        waits.append(
            Wait(
                words,
                (rank,),
                () if met else (peer,),
                entered=(peer,) if met else (),
                group=group,
                p2p=True,
                doubtful=scene.phase[position]
                == UNKNOWN,  # from its stack: what it posted before is not known
            )
        )
    for number, ranks in barriers.items():
        group = scene.snapshot.groups[number] if 0 <= number < len(scene.snapshot.groups) else None
        members = group.members if group and group.members else tuple(int(r) for r in scene.ranks)
        host_held[scene.positions(np.array(ranks, np.int64))] = True
        outside = np.array([r for r in members if r not in ranks], np.int64)
        # Without a page its row cannot be seen: such a rank is presumed by its stack, never accused by silence.
        paged = np.array(
            [scene.position(int(r)) >= 0 and scene.phase[scene.position(int(r))] >= 0 for r in outside], bool
        )
        presumed, blind = presume(scene, outside[~paged]) if len(outside) else (outside, outside)
        waits.append(
            Wait(
                "monitored_barrier",
                tuple(sorted(ranks)),
                numbers(outside[paged]) if len(outside) else (),
                numbers(presumed),
                numbers(blind),
                tuple(sorted(ranks)),
                group=group,
                p2p=True,
            )
        )
    return waits
