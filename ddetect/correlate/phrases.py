"""Operations and culprits as a verdict shows them; lines of evidence about an operation. Values enter and leave.

Never here: deciding, sentences (ddetect.report).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import Wait
from ddetect.model import Culprit, Names, Process, Waiting, Where, lane_of, rank_of
from ddetect.model.deeds import Deed, OpLabel, StuckIn
from ddetect.report.deeds import op_words
from ddetect.report.words import lanes_by_rank, name_members


def label(wait: Wait) -> OpLabel:
    """How a sentence refers to it."""
    if wait.standing is not None and wait.standing.announced:
        return OpLabel(wait.on)  # its number is nobody's name for it
    return OpLabel(wait.on, wait.seq, wait.group.label if wait.group else "")


def stuck_in(waits: Iterable[Wait]) -> tuple[StuckIn, ...]:
    """Who waits in which of them."""
    return tuple(StuckIn(wait.waiters, label(wait)) for wait in waits)


def culprit(
    scene: Scene, member: int, deed: Deed, *, where: Where | None = None, process: Process | None = None,
    whole: bool = False,
) -> Culprit:  # fmt: skip
    """A member as a verdict names it, or a whole rank with all its lanes; the judge puts its deed into words."""
    return Culprit(
        rank_of(member),
        lane=lane_of(member) if scene.names.lanes > 1 and not whole else None,
        host=scene.host(member),
        pid=scene.pid(member),
        process=process,
        where=where,
        deed=deed,
    )


def as_waiting(wait: Wait, waiters: Sequence[int], names: Names) -> list[Waiting]:
    """As a verdict lists it; with lanes an entry for all ranks of the same lanes, so that it is exact."""
    backend, group = (wait.group.backend, wait.group.label) if wait.group else ("", "")
    if names.lanes == 1:
        return [Waiting(tuple(waiters), wait.on, backend, group, wait.seq)]
    by_lanes: dict[tuple[int, ...], list[int]] = {}
    for rank, lanes in lanes_by_rank(waiters).items():
        by_lanes.setdefault(lanes, []).append(rank)
    return [
        Waiting(tuple(ranks), wait.on, backend, group, wait.seq, lanes) for lanes, ranks in by_lanes.items()
    ]


def wait_lines(wait: Wait, names: Names) -> list[str]:
    """Evidence about one operation: who is in, who is not."""
    op = op_words(label(wait), names)
    lines = [f"{op}: {name_members(wait.waiters, names)} entered and did not leave"]
    if wait.missing:
        verb = "has" if len(wait.missing) == 1 else "have"
        lines[0] += f"; {name_members(wait.missing, names)} {verb} not entered"
    if wait.presumed:
        presumed = name_members(wait.presumed, names)
        if wait.standing is not None and wait.standing.announced:
            lines.append(
                f"{op}: {presumed} may have begun the same step; the stack says what it does instead"
            )
        else:
            recorder = names.words.recorder
            unread = (
                f"the {recorder} of {presumed} was not read; the stack"
                if recorder
                else f"the stack of {presumed}"
            )
            lines.append(f"{op}: {unread} says elsewhere")
    if wait.blind:
        lines.append(f"{op}: nothing is known about {name_members(wait.blind, names)}")
    return lines
