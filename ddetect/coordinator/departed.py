"""Who of the job is gone, when, and which of these deaths are explained. A value: news make another one.

Enters: what agents told of ended processes. Leaves: the deaths that still want an explanation. Never here: what they
mean (ddetect.correlate), which of them an incident explains (life.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ddetect.correlate.rules.consequence import SEEN_LATE_S, origins, was_asked
from ddetect.frameworks.framework import Framework
from ddetect.model import Departure, Gone

Identity = tuple[object, ...]
Dated = tuple[Gone, float]


@dataclass(frozen=True, slots=True)
class Departures:
    """Everybody who ended in this attempt, first to last as told, with when it happened."""

    all: tuple[Dated, ...] = ()
    explained: frozenset[Identity] = frozenset()

    def hear(self, told: Iterable[Gone], now: float, *, replaced: Collection[int]) -> Departures:
        """News; what is known already is none. A process that another node's has replaced may end as it likes."""
        known = {_identity(gone) for gone, _ in self.all}
        news = [
            (gone, now - gone.age_s)
            for gone in told
            if _identity(gone) not in known and gone.rank not in replaced
        ]
        return replace(self, all=(*self.all, *news)) if news else self

    @property
    def deaths(self) -> tuple[Dated, ...]:
        """Ranks that ended as they should not."""
        return tuple((gone, at) for gone, at in self.all if gone.is_death and not was_asked(gone))

    @property
    def open(self) -> tuple[Dated, ...]:
        """Ranks that ended as they should not, and nobody has said why."""
        return tuple(item for item in self.deaths if _identity(item[0]) not in self.explained)

    def explain(self, deaths: Iterable[Dated]) -> Departures:
        """These want no explanation any more."""
        found = {_identity(gone) for gone, _ in deaths}
        return replace(self, explained=self.explained | found) if found - self.explained else self

    def faults(self, framework: Framework) -> tuple[Dated, ...]:
        """Open deaths by an error of their own: nobody else's death or wish explains them."""
        dead = dict(self.open)
        return tuple(
            (gone, dead[gone]) for gone in origins(list(dead), framework) if gone.how is Departure.RAISED
        )

    def ended_by(self, wish_at: float, framework: Framework) -> Departures:
        """Somebody wanted the job to end at that time: what died of it is explained, faults from before are not.

        A wish is told by a process, and on a busy machine a rank may be gone before that process has run.
        """
        faults = self.faults(framework)
        return self.explain(
            (gone, at) for gone, at in self.open if at >= wish_at - SEEN_LATE_S and (gone, at) not in faults
        )

    def without(self, ranks: Collection[int], but_pids: Collection[int]) -> Departures:
        """These ranks have new processes: who had them before is not missed any more."""
        kept = tuple(item for item in self.all if item[0].rank not in ranks or item[0].pid in but_pids)
        return replace(self, all=kept)


def _identity(gone: Gone) -> Identity:
    return (gone.rank, gone.role, gone.index, gone.pid, gone.how)  # a pid alone repeats across hosts and pods
