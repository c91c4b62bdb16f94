"""What a reason to look closer has to say: when to suspect, when it is over, when it is time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.watch import Watch
from ddetect.model import Phase, Verdict


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something is not as usual, since when and in which phase; `rank` where it is one rank's."""

    since: float
    phase: Phase
    steps: int
    rank: int = -1


class Trigger(Protocol):
    """One reason. It sees facts and says what it thinks; the state machine does the rest."""

    name: str

    def suspect(self, facts: Facts) -> Suspicion | None:
        """Whether there is reason to look closer now."""
        ...

    def is_over(self, watch: Watch, facts: Facts) -> bool:
        """Whether the job has gone on."""
        ...

    def decides(self, watch: Watch, facts: Facts, now: float) -> bool:
        """Whether the next look may be judged; else more are taken first, soon."""
        ...

    def is_time(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, kept: bool
    ) -> tuple[Watch, bool]:
        """Whether it has become an alarm. `kept`: the verdict is older than the looks, they cannot prove it."""
        ...

    def learn(self, watch: Watch, lasted_s: float, patience: Patience) -> Patience:
        """It ended by itself: so long is usual."""
        ...
