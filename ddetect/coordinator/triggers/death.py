"""A rank ended as it should not, and nothing that is open explains it."""

from __future__ import annotations

from ddetect.coordinator.due import patience_is_up
from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import Watch
from ddetect.model import Phase, Proof, Status, Verdict

DEATH_SETTLES_S = 1.5  # consequences of a death (peers' errors) arrive within this
SURVIVED_S = 10.0  # steps this long after a death: the job goes on without it


class Death:
    """The first of them counts."""

    name = "death"

    def suspect(self, facts: Facts) -> Suspicion | None:
        """Somebody died, and nobody wanted that."""
        if not facts.deaths:
            return None
        gone, at = min(facts.deaths, key=lambda death: death[1])
        return Suspicion(at, Phase.OTHER, facts.pulse.steps if facts.pulse else 0, gone.rank)

    def is_over(self, watch: Watch, facts: Facts) -> bool:
        """A spare took over, or it was not needed."""
        return facts.pulse is not None and facts.pulse.step_at > watch.since + SURVIVED_S

    def decides(self, watch: Watch, facts: Facts, now: float) -> bool:
        """Consequences are on their way."""
        return now - watch.since >= DEATH_SETTLES_S

    def is_time(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, kept: bool
    ) -> tuple[Watch, bool]:
        """At once when the first fault is known, or when the job has failed; the dead do not move between looks."""
        if opinion.asked or (facts.ending is not None and not opinion.last):
            return watch, False
        if verdict.proof is Proof.STRUCTURAL:
            return watch, True
        if opinion.last:
            return watch, verdict.status is not Status.UNDECIDED
        return patience_is_up(watch, opinion, verdict, facts, now, looks_again=False)

    def learn(self, watch: Watch, lasted_s: float, patience: Patience) -> Patience:
        """Nothing: no death is usual."""
        return patience
