"""One slot, different calls: op, shape, dtype, root or reduce op. Both sides are shown; the fewer are named, if they
stay the fewer whatever those called of whom nobody told.

What callers of an operation must agree on, and what may differ, its framework knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

from ddetect.correlate import confidence
from ddetect.correlate.collectives import Callers, calls_at
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit, label, wait_lines
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import user_line
from ddetect.correlate.wait import Wait
from ddetect.correlate.waits import Waits
from ddetect.frameworks.framework import Agreement, Framework
from ddetect.model import UNKNOWN, CallSpec, Cause, Group, Proof, Status, Where
from ddetect.model.claims import Disagree
from ddetect.model.deeds import Act, CallMade, Deed, Part
from ddetect.model.deeds import Side as SideShown
from ddetect.report.sentences import side_words

T = TypeVar("T")


Side = tuple[Agreement, list[Callers]]

_NOTHING = ("", "[]", "[[]]")


def mismatch(scene: Scene, waits: Waits) -> list[Finding]:
    """Compare what the members put into every slot that all of them have entered and some cannot leave."""
    found: dict[Group | None, tuple[int, Finding]] = {}
    for wait in waits.all:
        if wait.standing is None or wait.seq is None or wait.targets:
            continue
        if wait.group in found and found[wait.group][0] <= wait.seq:
            continue  # what is wrong with a later slot of the group follows from the earlier one
        calls = calls_at(scene.snapshot, wait.standing, wait.seq)
        sides = find_sides(calls, scene.framework)
        if len(sides) > 1:
            found[wait.group] = (wait.seq, _finding(scene, wait, calls, sides))
    return [finding for _, finding in found.values()]


def find_sides(calls: list[Callers], framework: Framework) -> list[Side]:
    """Split the callers of one slot by what they called, most first. A caller of whom the part that the others
    disagree on is not told is on no side.
    """
    by_op: dict[str, list[tuple[Callers, Agreement]]] = {}
    for call in calls:
        key = framework.agreement(call.spec)
        by_op.setdefault(key.op, []).append((call, key))
    sides: dict[Agreement, list[Callers]] = {}
    for keys in by_op.values():  # sizes and roots of different operations do not compare
        for call, key in _fill_unknown(keys):
            sides.setdefault(key, []).append(call)
    return sorted(
        sides.items(), key=lambda side: (-count_callers(side), min(call.ranks[0] for call in side[1]))
    )


def fewer(counts: Mapping[T, int], untold: int) -> set[T]:
    """The sides that are not the most, whatever the untold would add to them; of equals, both."""
    most, second, *_ = *sorted(counts.values(), reverse=True)[:2], -1, -1
    # Against the largest of the others: for the largest side itself (or its equal) that is the second.
    return {side for side, count in counts.items() if count + untold <= (second if count == most else most)}


def fewest(scene: Scene, calls: list[Callers], sides: list[Side], untold: int) -> list[Callers]:
    """Callers of an operation that the fewer called, and among the callers of one operation the fewer."""
    ops: Counter[str] = Counter()
    for call in calls:
        ops[scene.framework.operation(call.spec).name] += len(call.ranks)
    few_ops = fewer(ops, untold)
    named = [call for call in calls if scene.framework.operation(call.spec).name in few_ops]
    for op in sorted(set(ops) - few_ops):
        here = {key: (count_callers((key, callers)), callers) for key, callers in sides if key.op == op}
        counts = {key: count for key, (count, _) in here.items()}
        few = fewer(counts, untold + ops[op] - sum(counts.values()))
        named += [call for key, (_, callers) in here.items() if key in few for call in callers]
    return named


def _untold(scene: Scene, wait: Wait, calls: list[Callers]) -> int:
    """How many may have called something that nobody told."""
    standing = wait.standing
    if standing is None:
        return 0
    told = {rank for call in calls for rank in call.ranks.tolist()}
    members = set(standing.members.tolist())
    if not standing.sure_members:
        members |= {int(rank) for rank in scene.members[~scene.progress_read & (scene.in_world)]}
    return len(members - told)


def count_callers(side: Side) -> int:
    """How many are on this side."""
    return sum(len(call.ranks) for call in side[1])


def _fill_unknown(keys: list[tuple[Callers, Agreement]]) -> list[tuple[Callers, Agreement]]:
    """What a rank did not tell agrees with what all others said; where they disagree, that rank is left out."""
    filled: list[tuple[Callers, Agreement]] = []
    said = [{key[field] for _, key in keys} - {*_NOTHING, UNKNOWN} for field in range(len(Agreement._fields))]
    for call, key in keys:
        values: list[Any] = []
        for told, value in zip(said, key, strict=True):
            silent = value in _NOTHING or value == UNKNOWN
            if silent and len(told) > 1:
                break
            values.append(next(iter(told)) if silent and told else "" if value in _NOTHING else value)
        else:
            filled.append((call, Agreement(*values)))
    return filled


def _finding(scene: Scene, wait: Wait, calls: list[Callers], sides: list[Side]) -> Finding:
    still = set(wait.waiters)
    tie = count_callers(sides[0]) == count_callers(sides[1])
    untold = _untold(scene, wait, calls)
    named = fewest(scene, calls, sides, untold)
    vague = sum(map(count_callers, sides)) < sum(len(call.ranks) for call in calls)
    parts = differing(sides)
    culprits = [
        culprit(
            scene,
            rank,
            Deed(Act.CALLED, call=call_made(scene, call.spec)),
            where=_where(scene, call, rank, still),
        )
        for call in named
        for rank in call.ranks.tolist()
    ]
    shown = tuple(_shown(scene, callers, still) for _, callers in sides[:3])
    names = tuple(sorted(one.member for one in culprits))
    return Finding(
        Precedence.MISMATCH, Status.HANG, Cause.COLLECTIVE_MISMATCH, Proof.STRUCTURAL,
        confidence.times(confidence.MISMATCH, *[confidence.TIE] * tie, *[confidence.DOUBTFUL] * bool(untold or vague)),
        (Disagree(parts, shown[::-1], names, label(wait)),), tuple(culprits),
        (*(side_words(side, scene.names) for side in shown), *wait_lines(wait, scene.names)),
    )  # fmt: skip


def _shown(scene: Scene, callers: list[Callers], still: set[int]) -> SideShown:
    """A side as it is told, with one line of several."""
    members = tuple(sorted(rank for call in callers for rank in call.ranks.tolist()))
    lines = {_where(scene, call, rank, still) for call in callers for rank in call.ranks[:8].tolist()}
    told = [where for where in lines if where is not None]
    first = min(told, key=lambda where: (where.file, where.line, where.function), default=None)
    return SideShown(members, call_made(scene, callers[0].spec), first)


def differing(sides: list[Side]) -> tuple[Part, ...]:
    """What they disagree on."""
    return tuple(Part[name.upper()] for name in Agreement._fields if _differs(name, sides))


def _differs(name: str, sides: list[Side]) -> bool:
    """Whether the callers of one operation disagree on this part of it; or on the operation itself."""
    told: dict[str, set[Any]] = {}
    for key, _ in sides:
        told.setdefault("" if name == "op" else key.op, set()).add(getattr(key, name))
    return any(len(values) > 1 for values in told.values())


def _where(scene: Scene, call: Callers, rank: int, still: set[int]) -> Where | None:
    """The line of the call: the recorder's, or that of a rank which is still in it. Who left is elsewhere by now."""
    if call.frame != UNKNOWN:
        return scene.whose.where(scene.snapshot.comms.frames[call.frame])
    return user_line(scene, rank) if rank in still else None


def call_made(scene: Scene, spec: CallSpec) -> CallMade:
    """The call, without what is of no importance to its operation."""
    op, told = scene.framework.operation(spec).name, scene.framework.agreement(spec)
    if not (told.shape or told.dtype):  # there is nothing to agree on, as in a barrier
        return CallMade(op, root=told.root, reduce_op=spec.reduce_op)
    return CallMade(
        op, spec.in_sizes or spec.out_sizes, spec.in_dtypes.strip("[]"), told.root, spec.reduce_op
    )
