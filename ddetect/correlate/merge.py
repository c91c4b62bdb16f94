"""Fold the main threads of all ranks into one tree: who stands where. Samples enter, Branches leave.

100,000 ranks in one frame are one branch and a rank range. Never here: judging.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddetect.correlate.where import is_probe
from ddetect.model import Frame, Role, Snapshot
from ddetect.rankset import format_ranks


@dataclass(frozen=True, slots=True)
class Branch:
    """A frame, the ranks whose stacks pass through it, and what they called from there."""

    frame: Frame
    ranks: tuple[int, ...]
    inner: tuple[Branch, ...] = ()


def merge(snapshot: Snapshot) -> tuple[Branch, ...]:
    """The stack tree of the newest look, outermost frames first, the branch with most ranks first."""
    if not snapshot.samples:
        return ()
    sample = snapshot.samples[-1]
    stacks: list[tuple[tuple[Frame, ...], tuple[int, ...]]] = []
    for number, sighting in enumerate(sample.sightings):
        main = sighting.main
        ranks = sample.rank[(sample.sighting == number) & (sample.role == Role.RANK) & (sample.rank >= 0)]
        if main is None or not len(ranks):
            continue
        stack = tuple(frame for frame in reversed(main.stack) if not is_probe(frame))
        stacks.append((stack, tuple(int(rank) for rank in np.unique(ranks))))
    return _branches(stacks)


def _branches(stacks: list[tuple[tuple[Frame, ...], tuple[int, ...]]]) -> tuple[Branch, ...]:
    by_frame: dict[Frame, list[tuple[tuple[Frame, ...], tuple[int, ...]]]] = {}
    for stack, ranks in stacks:
        if stack:
            by_frame.setdefault(stack[0], []).append((stack[1:], ranks))
    branches = [
        Branch(frame, tuple(sorted({rank for _, ranks in rest for rank in ranks})), _branches(rest))
        for frame, rest in by_frame.items()
    ]
    return tuple(sorted(branches, key=lambda branch: (-len(branch.ranks), branch.ranks, branch.frame.line)))


def format_tree(branches: tuple[Branch, ...], indent: str = "") -> str:
    """The tree as text: a line per frame, its ranks where they change."""
    lines = []
    for branch in branches:
        frame = branch.frame
        lines.append(f"{indent}{frame.function} ({frame.file}:{frame.line})  [{format_ranks(branch.ranks)}]")
        inner = branch.inner
        while len(inner) == 1 and inner[0].ranks == branch.ranks:
            frame = inner[0].frame
            lines.append(f"{indent}{frame.function} ({frame.file}:{frame.line})")
            inner = inner[0].inner
        if inner:
            lines.append(format_tree(inner, indent + "  "))
    return "\n".join(lines)
