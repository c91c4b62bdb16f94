"""One slot, different calls: op, shape, dtype, root or reduce op. Both sides are shown, the fewer are named.

Allowed to differ: inputs of an uneven all_gather, outputs of an uneven reduce_scatter, all sizes of all_to_all, the
lists that only the root of gather and scatter has, and shapes of the same number of elements.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from ddetect.correlate import confidence
from ddetect.correlate.collectives import Call, calls_at, op_name
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import ranks_words, wait_lines
from ddetect.correlate.reasons import user_line
from ddetect.correlate.scene import Scene
from ddetect.correlate.wait import ROOTED, Wait
from ddetect.correlate.waits import Waits
from ddetect.correlate.where import format_where, where_of
from ddetect.model import UNKNOWN, Cause, Culprit, Proof, Signature, Status, Where


class Key(NamedTuple):
    """What members must agree on; "" and UNKNOWN mean that nobody told."""

    op: str
    shape: str = ""
    dtype: str = ""
    root: int = UNKNOWN
    reduce_op: str = ""


Side = tuple[Key, list[Call]]

_NO_SIZES = ("barrier", "all_to_all")
_NOTHING = ("", "[]", "[[]]")


def mismatch(scene: Scene, waits: Waits) -> list[Finding]:
    """Compare what the members put into every slot that all of them have entered and some cannot leave."""
    found = []
    for wait in waits.all:
        if wait.standing is None or wait.seq is None or wait.targets:
            continue
        sides = find_sides(calls_at(scene.snapshot, wait.standing, wait.seq))
        if len(sides) > 1:
            found.append(_finding(scene, wait, sides))
    return found


def find_sides(calls: list[Call]) -> list[Side]:
    """Split the callers of one slot by what they called, most first."""
    keys = [(call, _key(call.signature)) for call in calls]
    same_op = len({key.op for _, key in keys}) == 1  # sizes and roots of different operations do not compare
    keys = _fill_unknown(keys) if same_op else [(call, Key(key.op)) for call, key in keys]
    sides: dict[Key, list[Call]] = {}
    for call, key in keys:
        sides.setdefault(key, []).append(call)
    return sorted(sides.items(), key=lambda side: (-_count(side), min(call.ranks[0] for call in side[1])))


def _count(side: Side) -> int:
    return sum(len(call.ranks) for call in side[1])


def _key(signature: Signature) -> Key:
    op = op_name(signature)
    sizes, dtypes = signature.in_sizes, signature.in_dtypes
    if op in ("all_gather", "scatter"):
        sizes, dtypes = signature.out_sizes, signature.out_dtypes
    if op in _NO_SIZES or "+" in op:
        sizes = ""
    if op == "barrier":
        dtypes = ""
    root = signature.root if op in ROOTED else UNKNOWN
    # The list of an all_gather tells the size of every member: there the shapes themselves must agree.
    return Key(op, sizes if op == "all_gather" else _elements(sizes), dtypes, root, signature.reduce_op)


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


def _fill_unknown(keys: list[tuple[Call, Key]]) -> list[tuple[Call, Key]]:
    """What nobody told agrees with what most said: unknown is not different."""
    usual = Key(
        *(_usual([(key[field], len(call.ranks)) for call, key in keys]) for field in range(len(Key._fields)))
    )
    filled = [
        Key(
            key.op,
            usual.shape if key.shape in _NOTHING else key.shape,
            usual.dtype if key.dtype in _NOTHING else key.dtype,
            usual.root if key.root == UNKNOWN else key.root,
            key.reduce_op or usual.reduce_op,
        )
        for _, key in keys
    ]
    return [(call, key) for (call, _), key in zip(keys, filled, strict=True)]


def _usual(values: list[tuple[Any, int]]) -> Any:
    """The value most ranks told; when nobody told any, what they have in common: nothing."""
    known: Counter[Any] = Counter()
    for value, ranks in values:
        if value not in _NOTHING and value != UNKNOWN:
            known[value] += ranks
    return min(known, key=lambda value: (-known[value], str(value))) if known else values[0][0]


def _finding(scene: Scene, wait: Wait, sides: list[Side]) -> Finding:
    still = set(wait.waiters)
    tie = _count(sides[0]) == _count(sides[1])
    named = sides if tie else sides[1:]
    untold = wait.standing is not None and sum(map(_count, sides)) < len(wait.standing.members)
    if tie and untold:
        named = []  # the ranks that could not be read would decide it
    differ = [
        name.replace("_", " ") for name in Key._fields if len({getattr(key, name) for key, _ in sides}) > 1
    ]
    culprits = [
        Culprit(
            rank, host=scene.host(rank), pid=scene.pid(rank), where=_where(scene, call, rank, still),
            doing=f"called {_words(call.signature)}",
        )
        for _, calls in named
        for call in calls
        for rank in call.ranks.tolist()
    ]  # fmt: skip
    shown = []
    for _, calls in sides[:3]:
        ranks = sorted(rank for call in calls for rank in call.ranks.tolist())
        lines = {
            format_where(_where(scene, call, rank, still)) for call in calls for rank in call.ranks[:8]
        } - {""}
        at = f" in {min(lines)}" if lines else ""
        shown.append(f"{ranks_words(ranks)} called {_words(calls[0].signature)}{at}")
    group = f" of {wait.group.label}" if wait.group else ""
    says = f"ranks disagree on the {', '.join(differ)} of #{wait.seq}{group}: {'; '.join(shown[::-1])}"
    return Finding(
        Precedence.MISMATCH, Status.HANG, Cause.COLLECTIVE_MISMATCH, Proof.STRUCTURAL,
        confidence.times(confidence.MISMATCH, *[confidence.TIE] * tie, *[confidence.DOUBTFUL] * untold),
        says, tuple(culprits), (*shown, *wait_lines(wait)), weight=-float(wait.seq or 0),
    )  # fmt: skip


def _where(scene: Scene, call: Call, rank: int, still: set[int]) -> Where | None:
    """The line of the call: the recorder's, or that of a rank which is still in it. Who left is elsewhere by now."""
    if call.frame != UNKNOWN:
        return where_of(scene.snapshot.frames[call.frame])
    return user_line(scene, rank) if rank in still else None


def _words(signature: Signature) -> str:
    op = op_name(signature)
    parts = (
        []
        if op == "barrier"
        else [signature.in_sizes or signature.out_sizes, signature.in_dtypes.strip("[]")]
    )
    if signature.root != UNKNOWN and op in ROOTED:
        parts.append(f"root {signature.root}")
    if signature.reduce_op:
        parts.append(signature.reduce_op)
    inside = " ".join(part for part in parts if part)
    return f"{op}({inside})" if inside else op
