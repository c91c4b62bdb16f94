"""One slot, different calls: op, shape, dtype, root or reduce op. Both sides are shown, the fewer are named.

Allowed to differ: inputs of an uneven all_gather, outputs of an uneven reduce_scatter, all sizes of all_to_all, the
lists that only the root of gather and scatter has, and shapes of the same number of elements.
"""

from __future__ import annotations

import re
from collections import Counter

from ddetect.correlate import confidence
from ddetect.correlate.collectives import Slot, op_name, slots
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import ranks_words, wait_lines
from ddetect.correlate.reasons import user_line
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import ROOTED, Wait, Waits
from ddetect.correlate.where import format_where, where_of
from ddetect.model import UNKNOWN, Cause, Culprit, Proof, Signature, Status, Where

Key = tuple[str, str, str, int, str]
"""op, size, dtype, root, reduce op: what members must agree on."""

_NAMES = ("op", "shape", "dtype", "root", "reduce op")
_NO_SIZES = ("barrier", "all_to_all")


def mismatch(scene: Scene, waits: Waits) -> list[Finding]:
    """Compare what the members put into every slot that all of them have entered and some cannot leave."""
    found = []
    for wait in waits.all:
        if wait.standing is None or wait.seq is None or wait.targets:
            continue
        sides = find_sides(slots(scene.snapshot, wait.standing, wait.seq))
        if len(sides) > 1:
            found.append(_finding(scene, wait, sides))
    return found


def find_sides(rows: list[Slot]) -> list[tuple[Key, list[Slot]]]:
    """Split the callers of one slot by what they called, most first."""
    keys = [(slot, _key(slot.signature)) for slot in rows]
    if (
        len({key[0] for _, key in keys}) > 1
    ):  # other operations: sizes and roots of different ones do not compare
        keys = [(slot, (key[0], "", "", UNKNOWN, "")) for slot, key in keys]
    else:
        keys = _fill_unknown(keys)
    sides: dict[Key, list[Slot]] = {}
    for slot, key in keys:
        sides.setdefault(key, []).append(slot)
    return sorted(sides.items(), key=lambda side: (-len(side[1]), min(slot.rank for slot in side[1])))


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
    return op, _elements(sizes) if op not in ("all_gather",) else sizes, dtypes, root, signature.reduce_op


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


def _fill_unknown(keys: list[tuple[Slot, Key]]) -> list[tuple[Slot, Key]]:
    """What nobody told agrees with what most said: unknown is not different."""
    for field, unknown in ((1, ""), (2, ""), (3, UNKNOWN), (4, "")):
        known = Counter(key[field] for _, key in keys if key[field] not in (unknown, "[]", "[[]]"))
        if not known:
            continue
        usual = min(known, key=lambda value: (-known[value], str(value)))
        keys = [
            (slot, (*key[:field], usual, *key[field + 1 :]) if key[field] in (unknown, "[]", "[[]]") else key)  # type: ignore[misc]
            for slot, key in keys
        ]
    return keys


def _finding(scene: Scene, wait: Wait, sides: list[tuple[Key, list[Slot]]]) -> Finding:
    tie = len(sides[0][1]) == len(sides[1][1])
    named = sides if tie else sides[1:]
    untold = wait.standing is not None and sum(len(rows) for _, rows in sides) < len(wait.standing.members)
    if tie and untold:
        named = []  # the ranks that could not be read would decide it
    differ = [name for at, name in enumerate(_NAMES) if len({key[at] for key, _ in sides}) > 1]
    culprits = []
    for _, rows in named:
        for slot in sorted(rows, key=lambda slot: slot.rank):
            culprits.append(
                Culprit(
                    slot.rank, host=scene.host(slot.rank), pid=scene.pid(slot.rank), where=_where(scene, wait, slot),
                    doing=f"called {_words(slot.signature)}",
                )
            )  # fmt: skip
    shown = []
    for _, rows in sides[:3]:
        ranks = sorted(slot.rank for slot in rows)
        lines = {format_where(_where(scene, wait, slot)) for slot in rows[:8]} - {""}
        at = f" in {min(lines)}" if lines else ""
        shown.append(f"{ranks_words(ranks)} called {_words(rows[0].signature)}{at}")
    group = f" of {wait.group.label}" if wait.group else ""
    says = f"ranks disagree on the {', '.join(differ)} of #{wait.seq}{group}: {'; '.join(shown[::-1])}"
    return Finding(
        Precedence.MISMATCH, Status.HANG, Cause.COLLECTIVE_MISMATCH, Proof.STRUCTURAL,
        confidence.times(confidence.MISMATCH, *[confidence.TIE] * tie, *[confidence.DOUBTFUL] * untold),
        says, tuple(culprits), (*shown, *wait_lines(wait)), weight=-float(wait.seq or 0),
    )  # fmt: skip


def _where(scene: Scene, wait: Wait, slot: Slot) -> Where | None:
    if slot.frame != UNKNOWN:
        return where_of(scene.snapshot.frames[slot.frame])
    return user_line(scene, slot.rank)


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
