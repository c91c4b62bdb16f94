"""Swarm, a framework that nobody has heard of: its operations, its words, its stacks and its source.

`pull` ends as soon as one of the members that have the shard answers, a rule that torch lacks; `meet` waits for all.
"""

from __future__ import annotations

import json

from ddetect.agent.members import JobProcess
from ddetect.agent.sources import Reading
from ddetect.frameworks.framework import Framework, Needs, Operation, Words
from ddetect.frameworks.general import GENERAL_PATTERNS
from ddetect.frameworks.patterns import parse_patterns
from ddetect.model import CallSpec, Comms, Group, Ops, OpState, Progress

_STACKS = {
    "format": 1,
    "frameworks": ["swarm"],
    "threads": [
        {"kind": "collective", "op": "$function", "function": "^(pull|meet)$", "file": "swarm/ops\\.py$"}
    ],
}


def operation(spec: CallSpec | None) -> Operation:
    """One answer is enough for a pull."""
    name = spec.op if spec is not None else "a call"
    return Operation(name, Needs.ANY if name == "pull" else Needs.ALL)


SWARM = Framework(
    name="swarm",
    patterns=parse_patterns(json.dumps(_STACKS), "swarm").among(GENERAL_PATTERNS),
    operation=operation,
    words=Words(inside="the swarm", join="hatching", member="bee"),
)
HOLDERS, NEIGHBOURS = Group("bus", "holders", "shard holders", (0, 1, 2)), Group("bus", "pair", "", (1, 3))


class SwarmSource:
    """Tells which call each bee is in, from what its own daemon would say."""

    what = "calls"
    waits = True
    of = ""

    def __init__(self, calls: dict[int, tuple[str, Group]], silent: frozenset[int] = frozenset()) -> None:
        self._calls, self._silent = calls, silent

    def read(self, process: JobProcess) -> Reading:
        """One process: its open call, and how far it has come in its groups."""
        rank = process.rank
        if rank in self._silent:
            return Reading(unread="its daemon does not answer")
        groups = [group for group in (HOLDERS, NEIGHBOURS) if rank in group.members]
        op, where = self._calls.get(rank, ("", None))
        inside = [int(group == where) for group in groups]
        rows = len(groups)
        return Reading(
            Comms(
                groups=tuple(groups),
                calls=(CallSpec(op),) if op else (),
                progress=Progress(
                    rank=[rank] * rows,
                    group=list(range(rows)),
                    enqueued=[6 + held for held in inside],
                    started=[0] * rows,
                    completed=[6] * rows,
                    oldest_open=[7 * held for held in inside],
                    first_kept=[1] * rows,
                ),
                ops=Ops(
                    rank=[rank] * bool(op),
                    group=[inside.index(1)] if op else [],
                    seq=[7] * bool(op),
                    call=[0] * bool(op),
                    state=[OpState.ENQUEUED] * bool(op),
                    frame=[-1] * bool(op),
                ),
            )
        )
