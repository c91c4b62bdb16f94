"""Ranks that make a process group, and those that they wait for. A Scene enters, Waits leave.

Never here: a group that exists.
"""

from __future__ import annotations

import numpy as np

from ddetect.correlate.scene import ELSEWHERE, Bools, Scene
from ddetect.correlate.wait import Wait, every_node_is_heard, numbers, unheard
from ddetect.frameworks.kinds import Kind
from ddetect.model import UNKNOWN, Phase


def rendezvous_waits(scene: Scene, host_held: Bools) -> list[Wait]:
    """Ranks that make a process group wait for those that do not come."""
    by_stack = (scene.kind == Kind.RENDEZVOUS) & scene.live
    starting = scene.live & (scene.phase == Phase.STARTING) & ~by_stack & ~scene.aside
    absent = unheard(scene)
    joining = ((scene.phase == Phase.JOINING) | by_stack) & scene.live & ~scene.frozen
    if not joining.any():
        return []
    outside = scene.live & ~joining & ~scene.aside
    first_meeting = scene.framework.words.join
    later = {scene.rank_process(int(r)).doing.op for r in scene.members[joining & by_stack]} - {first_meeting}
    host_held |= joining
    ranks = numbers(scene.members[joining])
    if later and not starting.any():
        talks = np.isin(scene.kind, (Kind.COLLECTIVE, Kind.P2P))
        missing = outside & ((scene.kind != Kind.UNREAD) | np.isin(scene.phase, ELSEWHERE))
        # Who is in a collective is held there: an edge all the same, so that a cycle can show.
        missing = missing & ~(talks & ~host_held)
        return [
            Wait(
                min(later),
                ranks,
                (),
                numbers(scene.members[missing]),
                numbers(scene.members[outside & ~missing | absent]),
            )
        ]
    late = starting | scene.frozen & outside
    late |= (
        outside
        & (scene.phase == UNKNOWN)
        & ~np.isin(scene.kind, (Kind.UNREAD, Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD))
    )
    left = scene.gone & (scene.in_world)
    blind = outside & ~late & (scene.phase == UNKNOWN) & (scene.kind == Kind.UNREAD)
    # Who is seen to be late is named alone. Else who has no process, if it can only be because nobody started it.
    if not (late | left).any() and every_node_is_heard(scene):
        late |= absent
    blind |= absent & ~late
    return [
        Wait(
            first_meeting,
            ranks,
            numbers(scene.members[late | left]),
            (),
            numbers(scene.members[blind]),
            ranks,
            joins=True,
        )
    ]
