"""A framework ended ranks with SIGABRT inside an operation: what a peer sent did not fit. The receiver is a victim.

Who differs is named where that is told: by the last calls of those that died, as their pages had them, and by the
recorders of the others, at the same number; the fewer, of equals both. Else nobody. Never here: which abort is of that
kind (abort_calls.py); ranks that live and hang (mismatch.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.collectives import Callers, calls_at, standings
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.abort_calls import abort_label, is_aborted_inside
from ddetect.correlate.rules.death_words import death_lines, stderr_lines
from ddetect.correlate.rules.mismatch import Side, call_made, count_callers, differing, fewest, find_sides
from ddetect.correlate.scene import Scene
from ddetect.model import UNKNOWN, CallSpec, Cause, Gone, LastCall, Proof, Status
from ddetect.model.claims import Aborted
from ddetect.model.deeds import Act, Deed
from ddetect.model.deeds import Side as SideShown

_MOST_SIDES = 3


def aborted_inside(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Suspect a mismatch where ranks were aborted inside an operation whose members meet on the host."""
    victims = [gone for gone in deaths if is_aborted_inside(gone, scene.framework)]
    victims = [
        gone
        for gone in victims
        # On a device a watchdog aborts who waits for too long: that tells of no mismatch.
        if scene.framework.refuses_calls(gone.exception) or not _on_device(scene, gone.last_call)
    ]
    if not victims:
        return []
    told = [gone for gone in victims if gone.last_call is not None and gone.last_call.seq != UNKNOWN]
    first = max(told or victims, key=lambda gone: gone.age_s)
    calls = _calls(scene, deaths, first.last_call)
    sides = find_sides(calls, scene.framework)
    untold = _untold(scene, first.last_call, calls)
    named = fewest(scene, calls, sides, untold) if len(sides) > 1 else []
    where = {gone.rank: scene.whose.where(gone.where) for gone in deaths}
    culprits = tuple(
        culprit(
            scene, rank, Deed(Act.CALLED, call=call_made(scene, call.spec)), where=where.get(rank), whole=True
        )
        for call in named
        for rank in call.ranks.tolist()
    )
    names = tuple(sorted(one.rank for one in culprits))
    shown = tuple(
        SideShown(
            members := tuple(sorted(rank for call in callers for rank in call.ranks.tolist())),
            call_made(scene, callers[0].spec),
            next((where[rank] for rank in members if where.get(rank)), None),
        )
        for _, callers in reversed(sides[:_MOST_SIDES])
    )
    claim = Aborted(
        tuple(sorted(gone.rank for gone in victims)),
        abort_label(first),
        differing(sides) if len(sides) > 1 else (),
        shown if len(sides) > 1 else (),
        names,
    )
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.COLLECTIVE_MISMATCH,
            Proof.STRUCTURAL if names else Proof.TIME, confidence.times(*_sure(sides, untold, victims, scene)),
            (claim,), culprits,
            (*death_lines(deaths, scene.framework), *stderr_lines(victims, scene.names)),
        )
    ]  # fmt: skip


def _sure(sides: Sequence[Side], untold: int, victims: Sequence[Gone], scene: Scene) -> tuple[float, ...]:
    if len(sides) > 1:
        tie = [confidence.TIE] if count_callers(sides[0]) == count_callers(sides[1]) else []
        return (confidence.MISMATCH, *tie, *[confidence.DOUBTFUL] * bool(untold))
    said = any(scene.framework.refuses_calls(gone.exception) for gone in victims)
    return (confidence.MISMATCH, *([] if said else [confidence.ABORT_UNTOLD]), confidence.BESIDE_A_DEATH)


def _on_device(scene: Scene, call: LastCall | None) -> bool:
    return call is not None and bool(call.backend) and scene.framework.on_device(call.backend)


def _untold(scene: Scene, slot: LastCall | None, calls: Sequence[Callers]) -> int:
    """How many members of that group may have called something that nobody told."""
    size = slot.size if slot is not None and slot.size != UNKNOWN else scene.count_ranks
    return max(0, size - sum(len(call.ranks) for call in calls))


def _calls(scene: Scene, deaths: Sequence[Gone], slot: LastCall | None) -> list[Callers]:
    """What was called at that number of that group: by the dead as their pages tell, by others as recorders do."""
    if slot is None or slot.seq == UNKNOWN:
        return []
    found: dict[int, CallSpec] = {}
    for look in reversed(scene.snapshot.looks):
        alone = replace(scene.snapshot, looks=(look,))
        for standing in standings(alone, scene.members[scene.in_world], scene.framework):
            if (standing.group.backend, standing.group.name) != (slot.backend, slot.group):
                continue
            for call in calls_at(alone, standing, slot.seq):
                found |= {rank: call.spec for rank in call.ranks.tolist() if rank not in found}
    for gone in deaths:
        last = gone.last_call
        if last is not None and (last.backend, last.group, last.seq) == (slot.backend, slot.group, slot.seq):
            found.setdefault(gone.rank, _spec(last))
    by_spec: dict[CallSpec, list[int]] = {}
    for rank, spec in found.items():
        by_spec.setdefault(spec, []).append(rank)
    return [Callers(spec, np.array(sorted(ranks), np.int64), UNKNOWN) for spec, ranks in by_spec.items()]


def _spec(call: LastCall) -> CallSpec:
    sizes = f"[[{call.elements}]]" if call.elements != UNKNOWN else ""
    return CallSpec(call.op, sizes, out_sizes=sizes, root=call.root, reduce_op=call.reduce_op)
