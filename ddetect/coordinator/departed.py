"""Who of the job is gone, when, and which of these deaths are explained. A value: news make another one.

Enters: what agents told of ended processes. Leaves: the deaths that still want an explanation. Never here: what they
mean (ddetect.correlate), which of them an incident explains (life.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ddetect.correlate.rules.consequence import SEEN_LATE_S, origins, was_asked
from ddetect.correlate.rules.on_purpose import ENDING_SIGNALS
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

    def errors(self, framework: Framework) -> tuple[Dated, ...]:
        """Open deaths by an exception of their own: nobody else's death explains them."""
        dead = dict(self.open)
        return tuple(
            (gone, dead[gone]) for gone in origins(list(dead), framework) if gone.how is Departure.RAISED
        )

    def faults(self, framework: Framework, before: float) -> tuple[Dated, ...]:
        """Open deaths from before somebody wanted the job to end, and not by what people end jobs with.

        What is only known to be gone may have died of the wish: it is told by a process, and on a busy machine a rank
        may be gone before that process has run.
        """
        errors = self.errors(framework)
        return tuple(
            (gone, at)
            for gone, at in self.open
            if at < before
            and ((gone, at) in errors or _crashed(gone) or (at < before - SEEN_LATE_S and not _ended(gone)))
        )

    def ended_by(self, wish_at: float, framework: Framework) -> Departures:
        """Somebody wanted the job to end at that time: what died of it is explained, faults from before are not."""
        faults = self.faults(framework, wish_at)
        return self.explain(item for item in self.open if item not in faults)

    def without(self, ranks: Collection[int], but_pids: Collection[int]) -> Departures:
        """These ranks have new processes: who had them before is not missed any more."""
        kept = tuple(item for item in self.all if item[0].rank not in ranks or item[0].pid in but_pids)
        return replace(self, all=kept)


def _crashed(gone: Gone) -> bool:
    """Whether it is known to have died of something that nobody ends a job with."""
    if gone.how is not Departure.VANISHED:
        return False
    number = gone.signal or (gone.code - 128 if gone.code > 128 else 0)
    return number not in ENDING_SIGNALS if number else gone.code > 0


def _ended(gone: Gone) -> bool:
    """Whether it is known to have died of what people end jobs with."""
    return gone.how is Departure.VANISHED and (gone.signal or gone.code - 128) in ENDING_SIGNALS


def _identity(gone: Gone) -> Identity:
    return (gone.rank, gone.role, gone.index, gone.pid, gone.how)  # a pid alone repeats across hosts and pods
