"""One slot, different calls: op, shape, dtype, root or reduce op. Both sides are shown; the fewer are named, if they
stay the fewer whatever those called of whom nobody told.

Allowed to differ: inputs of an uneven all_gather, outputs of an uneven reduce_scatter, all sizes of all_to_all, the
lists that only the root of gather and scatter has, and shapes of the same number of elements.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from ddetect.correlate import confidence
from ddetect.correlate.collectives import Callers, calls_at, op_name
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit, label, wait_lines
from ddetect.correlate.reasons import user_line
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import ROOTED, Wait
from ddetect.correlate.waits import Waits
from ddetect.correlate.where import where_of
from ddetect.model import UNKNOWN, CallSpec, Cause, Group, Proof, Status, Where
from ddetect.model.claims import Disagree
from ddetect.model.deeds import Act, CallMade, Deed, Part
from ddetect.model.deeds import Side as SideShown
from ddetect.report.sentences import side_words

T = TypeVar("T")


class Key(NamedTuple):
    """What members must agree on; "" and UNKNOWN mean that nobody told."""

    op: str
    shape: str = ""
    dtype: str = ""
    root: int = UNKNOWN
    reduce_op: str = ""


Side = tuple[Key, list[Callers]]

_NO_SIZES = ("barrier", "all_to_all")
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
        sides = find_sides(calls)
        if len(sides) > 1:
            found[wait.group] = (wait.seq, _finding(scene, wait, calls, sides))
    return [finding for _, finding in found.values()]


def find_sides(calls: list[Callers]) -> list[Side]:
    """Split the callers of one slot by what they called, most first. A caller of whom the part that the others
    disagree on is not told is on no side.
    """
    by_op: dict[str, list[tuple[Callers, Key]]] = {}
    for call in calls:
        key = _key(call.spec)
        by_op.setdefault(key.op, []).append((call, key))
    sides: dict[Key, list[Callers]] = {}
    for keys in by_op.values():  # sizes and roots of different operations do not compare
        for call, key in _fill_unknown(keys):
            sides.setdefault(key, []).append(call)
    return sorted(sides.items(), key=lambda side: (-_count(side), min(call.ranks[0] for call in side[1])))


def fewer(counts: Mapping[T, int], untold: int) -> set[T]:
    """The sides that are not the most, whatever the untold would add to them; of equals, both."""
    most, second, *_ = *sorted(counts.values(), reverse=True)[:2], -1, -1
    # Against the largest of the others: for the largest side itself (or its equal) that is the second.
    return {side for side, count in counts.items() if count + untold <= (second if count == most else most)}


def _named(calls: list[Callers], sides: list[Side], untold: int) -> list[Callers]:
    """Callers of an operation that the fewer called, and among the callers of one operation the fewer."""
    ops: Counter[str] = Counter()
    for call in calls:
        ops[op_name(call.spec)] += len(call.ranks)
    few_ops = fewer(ops, untold)
    named = [call for call in calls if op_name(call.spec) in few_ops]
    for op in sorted(set(ops) - few_ops):
        here = {key: (_count((key, callers)), callers) for key, callers in sides if key.op == op}
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
        members |= {int(rank) for rank in scene.ranks[~scene.progress_read & (scene.ranks < scene.world)]}
    return len(members - told)


def _count(side: Side) -> int:
    return sum(len(call.ranks) for call in side[1])


def _key(spec: CallSpec) -> Key:
    op = op_name(spec)
    sizes, dtypes = spec.in_sizes, spec.in_dtypes
    if op in ("all_gather", "scatter"):
        sizes, dtypes = spec.out_sizes, spec.out_dtypes
    if op in _NO_SIZES or "+" in op:
        sizes = ""
    if op == "barrier":
        dtypes = ""
    root = spec.root if op in ROOTED else UNKNOWN
    # The list of an all_gather tells the size of every member: there the shapes themselves must agree.
    return Key(op, sizes if op == "all_gather" else _elements(sizes), dtypes, root, spec.reduce_op)


def _elements(sizes: str) -> str:
    """Sizes as the number of elements of each tensor: [[4, 16]] and [[64]] move the same bytes."""
    tensors = re.findall(r"\[([\d, ]*)\]", sizes)
    if not tensors or "..." in sizes:
        return sizes
    counts = []
    for tensor in tensors:
        count = 1
        for number in re.findall(r"\d+", tensor):
            count *= int(number)
        counts.append(str(count))
    return ",".join(counts)


def _fill_unknown(keys: list[tuple[Callers, Key]]) -> list[tuple[Callers, Key]]:
    """What a rank did not tell agrees with what all others said; where they disagree, that rank is left out."""
    filled: list[tuple[Callers, Key]] = []
    said = [{key[field] for _, key in keys} - {*_NOTHING, UNKNOWN} for field in range(len(Key._fields))]
    for call, key in keys:
        values: list[Any] = []
        for told, value in zip(said, key, strict=True):
            silent = value in _NOTHING or value == UNKNOWN
            if silent and len(told) > 1:
                break
            values.append(next(iter(told)) if silent and told else "" if value in _NOTHING else value)
        else:
            filled.append((call, Key(*values)))
    return filled


def _finding(scene: Scene, wait: Wait, calls: list[Callers], sides: list[Side]) -> Finding:
    still = set(wait.waiters)
    tie = _count(sides[0]) == _count(sides[1])
    untold = _untold(scene, wait, calls)
    named = _named(calls, sides, untold)
    vague = sum(map(_count, sides)) < sum(len(call.ranks) for call in calls)
    parts = tuple(Part[name.upper()] for name in Key._fields if _differs(name, sides))
    culprits = [
        culprit(scene, rank, Deed(Act.CALLED, call=_call(call.spec)), where=_where(scene, call, rank, still))
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
    return SideShown(members, _call(callers[0].spec), first)


def _differs(name: str, sides: list[Side]) -> bool:
    """Whether the callers of one operation disagree on this part of it; or on the operation itself."""
    told: dict[str, set[Any]] = {}
    for key, _ in sides:
        told.setdefault("" if name == "op" else key.op, set()).add(getattr(key, name))
    return any(len(values) > 1 for values in told.values())


def _where(scene: Scene, call: Callers, rank: int, still: set[int]) -> Where | None:
    """The line of the call: the recorder's, or that of a rank which is still in it. Who left is elsewhere by now."""
    if call.frame != UNKNOWN:
        return where_of(scene.snapshot.comms.frames[call.frame])
    return user_line(scene, rank) if rank in still else None


def _call(spec: CallSpec) -> CallMade:
    """The call, without what is of no importance to its operation."""
    op = op_name(spec)
    root = spec.root if op in ROOTED else UNKNOWN
    if op == "barrier":
        return CallMade(op, root=root, reduce_op=spec.reduce_op)
    return CallMade(op, spec.in_sizes or spec.out_sizes, spec.in_dtypes.strip("[]"), root, spec.reduce_op)
