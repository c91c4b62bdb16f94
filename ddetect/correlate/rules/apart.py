"""Everyone is inside an operation, and only stacks tell in what: no probe, no recorder.

All in the default group and in different calls is a mismatch; some in groups of their own while the rest waits for them
is most likely the order of groups; all in the same call from the same line is below Python, or a shape that no stack
shows. Only time proves any of it: a slow transfer looks the same.
Never here: ranks that are elsewhere (missing.py names those), send and receive (cycle.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.mismatch import fewer
from ddetect.correlate.scene import Scene
from ddetect.correlate.sights import sight_lines, user_line
from ddetect.correlate.waits import Waits, reducer_seen
from ddetect.frameworks.kinds import Kind
from ddetect.model import UNKNOWN, Cause, Culprit, Proof, Status, Where
from ddetect.model.claims import Disagree, NobodyLeaves, OwnGroups
from ddetect.model.deeds import Act, CallMade, Deed, OpLabel, Part, Side
from ddetect.report.sentences import side_words

MOST_RANKS = 4096
"""Beyond this many ranks nobody attaches from one host; the columns of recorders serve those."""


@dataclass(frozen=True, slots=True)
class Called:
    """The call a rank is in, as its stack and its arguments show it."""

    op: str
    root: int
    default_group: bool
    where: Where | None


def calls_apart(scene: Scene, waits: Waits) -> list[Finding]:
    """Compare the calls, if every rank of the job is seen in one."""
    calls = _all_calls(scene, waits)
    if not calls:
        return []
    own_groups = [rank for rank, call in calls.items() if not call.default_group]
    if own_groups:
        return _group_order(scene, calls, own_groups) if len(own_groups) < len(calls) else []
    apart = _root_apart(scene, calls) or _op_apart(scene, calls) or _line_apart(scene, calls)
    if (
        not apart
        and all(call.op == scene.framework.words.backward_call for call in calls.values())
        and not reducer_seen(scene, calls)
    ):
        return []  # with a GPU the main thread sleeps through every backward pass while the device works
    return apart or _all_in(calls)


def _all_calls(scene: Scene, waits: Waits) -> dict[int, Called]:
    """Every rank's call; nothing if one rank is elsewhere, unseen, in point-to-point, or told by probe or recorder."""
    everybody = scene.live & ~scene.frozen & waits.blocked
    told = scene.progress_read | (scene.phase != UNKNOWN)
    if not everybody.all() or told.any() or not 1 < scene.world == len(scene.members) <= MOST_RANKS:
        return {}
    if any(wait.targets or wait.blind for wait in waits.all) or not scene.steady.all():
        return {}
    ops = scene.snapshot.comms.ops
    row_of = {int(rank): row for row, rank in enumerate(ops.member)}
    calls = {}
    for rank in map(int, scene.members):
        doing, row = scene.rank_process(rank).doing, row_of.get(rank)
        if doing.kind is Kind.BACKWARD:
            calls[rank] = Called(scene.framework.words.backward_call, UNKNOWN, True, user_line(scene, rank))
        elif doing.kind is Kind.COLLECTIVE and row is not None:
            spec = scene.snapshot.comms.calls[int(ops.call[row])]
            default = int(ops.group[row]) != UNKNOWN
            calls[rank] = Called(spec.op, spec.root, default, user_line(scene, rank))
        else:
            return {}
    return calls


def _root_apart(scene: Scene, calls: dict[int, Called]) -> list[Finding]:
    """Ranks that are in one rooted operation and believe in different roots. Who has left it backs its own root."""
    for op in sorted({call.op for call in calls.values() if call.root != UNKNOWN}):
        sides: dict[int, list[int]] = {}
        for rank, call in calls.items():
            if call.op == op and call.root != UNKNOWN:
                sides.setdefault(call.root, []).append(rank)
        if len(sides) < 2:
            continue
        inside = {rank for rank, call in calls.items() if call.op == op}
        untold = len(inside) - sum(map(len, sides.values()))
        left = len(calls) - len(inside)
        backing = {root: len(ranks) + left * (root not in inside) for root, ranks in sides.items()}
        shown = [(backing[root], ranks) for root, ranks in sides.items()]
        return [_mismatch(scene, calls, Part.ROOT, shown, untold=untold)]
    return []


def _op_apart(scene: Scene, calls: dict[int, Called]) -> list[Finding]:
    sides: dict[str, list[int]] = {}
    for rank, call in calls.items():
        sides.setdefault(call.op, []).append(rank)
    if len(sides) < 2:
        return []
    return [_mismatch(scene, calls, Part.OP, [(len(ranks), ranks) for ranks in sides.values()])]


def _line_apart(scene: Scene, calls: dict[int, Called]) -> list[Finding]:
    """The same operation from different lines: one side has gone past the other, so what they exchange differs."""
    sides: dict[Where | None, list[int]] = {}
    for rank, call in calls.items():
        sides.setdefault(call.where, []).append(rank)
    if len(sides) < 2 or None in sides:
        return []
    found = _mismatch(
        scene, calls, Part.LINE, [(len(ranks), ranks) for ranks in sides.values()], confidence.LINES_ONLY
    )
    return [found]


def _mismatch(
    scene: Scene,
    calls: dict[int, Called],
    differs: Part,
    sides: Sequence[tuple[int, list[int]]],
    doubt: float = 1.0,
    untold: int = 0,
) -> Finding:
    """The side that fewer back is named, whoever the untold back; a tie names both."""
    most = max(backing for backing, _ in sides)
    tie = sum(backing == most for backing, _ in sides) > 1
    few = fewer({number: backing for number, (backing, _) in enumerate(sides)}, untold)
    named = sorted(rank for number in few for rank in sides[number][1])
    shown = tuple(_side(calls, ranks) for _, ranks in sorted(sides, key=lambda side: (side[0], side[1])))
    factors = [confidence.STACKS_ONLY, doubt, confidence.TIE if tie else 1.0]
    factors += [confidence.DOUBTFUL] if untold else []
    return Finding(
        Precedence.MISMATCH, Status.HANG, Cause.COLLECTIVE_MISMATCH, Proof.TIME,
        confidence.times(confidence.MISMATCH, *factors),
        (Disagree((differs,), shown, tuple(named)),), _culprits(scene, calls, named),
        (*(side_words(side, scene.names) for side in shown), *_seen(scene, named)),
    )  # fmt: skip


def _group_order(scene: Scene, calls: dict[int, Called], inner: list[int]) -> list[Finding]:
    """Some are in groups of their own and do not come out; the others wait for them in the default group."""
    if len(inner) < 2 or len({calls[rank].op for rank in inner}) > 1:
        return []
    rest = [rank for rank in calls if rank not in inner]
    claim = OwnGroups(_side(calls, inner), _side(calls, rest))
    note = "most likely they enter their groups in different order; stacks do not show which group each is in"
    return [
        Finding(
            Precedence.CYCLE, Status.HANG, Cause.GROUP_ORDER_DEADLOCK, Proof.TIME,
            confidence.times(confidence.CYCLE, confidence.STACKS_ONLY, confidence.GROUPS_UNTOLD), (claim,),
            _culprits(scene, calls, inner), (note, *_seen(scene, inner)),
        )
    ]  # fmt: skip


def _all_in(calls: dict[int, Called]) -> list[Finding]:
    claim = NobodyLeaves(tuple(calls), side=_side(calls, list(calls)))
    note = "it is stuck below Python, or shapes or dtypes differ: no stack shows those, `ddetect launch` does"
    return [
        Finding(
            Precedence.NEVER_LEFT, Status.HANG, Cause.ALL_ENTERED_NONE_LEFT, Proof.TIME,
            confidence.times(confidence.ALL_ENTERED, confidence.STACKS_ONLY, confidence.PRESUMED),
            (claim,), (), (note,),
        )
    ]  # fmt: skip


def _side(calls: dict[int, Called], ranks: list[int]) -> Side:
    call = calls[ranks[0]]
    return Side(tuple(ranks), CallMade(call.op, root=call.root), call.where, seen=True)


def _culprits(scene: Scene, calls: dict[int, Called], ranks: list[int]) -> tuple[Culprit, ...]:
    return tuple(
        culprit(scene, rank, Deed(Act.IS_IN_CALL, op=OpLabel(calls[rank].op)), where=calls[rank].where)
        for rank in ranks
    )


def _seen(scene: Scene, ranks: list[int]) -> list[str]:
    return [line for rank in ranks[:4] for line in sight_lines(scene.rank_process(rank), scene.names)]
