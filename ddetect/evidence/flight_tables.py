"""Many digests into the columns that travel: groups, calls and frames once each, and rows.

Enters: digests of the Flight Recorder and open point-to-point operations, rank by rank. Leaves: the
Comms of a look. Never here: reading anything.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ddetect.evidence.flight_recorder import Digest
from ddetect.model import UNKNOWN, CallSpec, Comms, Frame, Group, OpenP2P, Ops, OpState, Progress

_Value = TypeVar("_Value")


class CommsBuilder:
    """Takes ranks one by one; `build` once at the end."""

    def __init__(self) -> None:
        self._groups: dict[Group, int] = {}
        self._calls: dict[CallSpec, int] = {}
        self._frames: dict[Frame, int] = {}
        self._progress: defaultdict[str, list[float]] = defaultdict(list)
        self._ops: defaultdict[str, list[float]] = defaultdict(list)
        self._p2p: defaultdict[str, list[float]] = defaultdict(list)

    def add_groups(self, groups: Iterable[Group]) -> None:
        """Make groups known, even those nobody has a row for."""
        for group in groups:
            _number(self._groups, group)

    def add_digest(self, digest: Digest) -> None:
        """Add what one rank's recorder said."""
        for one in digest.groups:
            group = _number(self._groups, one.group)
            _row(
                self._progress,
                rank=digest.rank,
                group=group,
                enqueued=one.enqueued,
                started=one.started,
                completed=one.completed,
                oldest_open=one.oldest_open,
                first_kept=one.first_kept,
            )
            for op in one.ops:
                _row(
                    self._ops,
                    rank=digest.rank,
                    group=group,
                    seq=op.seq,
                    call=_number(self._calls, op.call),
                    state=op.state,
                    frame=UNKNOWN if op.frame is None else _number(self._frames, op.frame),
                    age_s=op.age_s,
                    timeout_s=op.timeout_s,
                )
            for p2p in one.p2p:
                self.add_p2p(digest.rank, p2p.kind, p2p.peer, 0, one.group, p2p.waiting, p2p.age_s)

    def add_progress(self, rank: int, group: Group, enqueued: int, completed: int, oldest_open: int) -> None:
        """Add how far a member has come where no recorder but its page tells; nothing has fallen out of a ring."""
        _row(
            self._progress,
            rank=rank,
            group=_number(self._groups, group),
            enqueued=enqueued,
            started=0,
            completed=completed,
            oldest_open=oldest_open,
            first_kept=1,
        )

    def add_p2p(
        self, rank: int, kind: int, peer: int, tag: int, group: Group | None, waiting: bool, age_s: float
    ) -> None:
        """Add an open point-to-point operation; a group nobody knows is UNKNOWN."""
        number = UNKNOWN if group is None else _number(self._groups, group)
        _row(
            self._p2p,
            rank=rank,
            kind=kind,
            peer=peer,
            tag=tag,
            group=number,
            waiting=int(waiting),
            age_s=age_s,
        )

    def add_call(self, rank: int, group: Group | None, call: CallSpec) -> None:
        """Add a collective that a rank's stack shows and no recorder numbers: its seq is UNKNOWN."""
        _row(
            self._ops,
            rank=rank,
            group=UNKNOWN if group is None else _number(self._groups, group),
            seq=UNKNOWN,
            call=_number(self._calls, call),
            state=OpState.ENQUEUED,
            frame=UNKNOWN,
            age_s=math.inf,
            timeout_s=math.inf,
        )

    def build(self) -> Comms:
        """Everything added, as columns."""
        return Comms(
            tuple(self._groups),
            tuple(self._calls),
            tuple(self._frames),
            Progress(**self._progress),  # type: ignore[arg-type]  # freeze() makes arrays of lists
            Ops(**self._ops),  # type: ignore[arg-type]
            OpenP2P(**self._p2p),  # type: ignore[arg-type]
        )


def _number(table: dict[_Value, int], value: _Value) -> int:
    return table.setdefault(value, len(table))


def _row(table: defaultdict[str, list[float]], **values: float) -> None:
    for name, value in values.items():
        table[name].append(value)
