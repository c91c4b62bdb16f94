"""One rank stands still while the others move: it matters if somebody waits for it."""

from __future__ import annotations

from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.triggers.stall import Stall
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import Watch
from ddetect.model import Verdict


class Quiet(Stall):
    """The rank that has been quiet longest."""

    name = "quiet rank"

    def suspect(self, facts: Facts) -> Suspicion | None:
        """It has stood for long, in a job that has its rhythm."""
        pulse = facts.pulse
        if pulse is None or not facts.patience.learned(pulse.steps) or pulse.alive < 2:
            return None
        if facts.alone_s <= facts.patience.alone_after_s():
            return None
        return Suspicion(pulse.quiet_at, pulse.phase, pulse.steps, pulse.quiet_rank)

    def is_over(self, watch: Watch, facts: Facts) -> bool:
        """It moves."""
        pulse = facts.pulse
        return pulse is not None and (pulse.quiet_rank != watch.rank or pulse.quiet_at > watch.since + 0.001)

    def is_time(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, kept: bool
    ) -> tuple[Watch, bool]:
        """Not while nobody waits for it: an evaluator or a server among the ranks."""
        if not verdict.waiting:
            return watch, False
        return super().is_time(watch, opinion, verdict, facts, now, kept=kept)

    def learn(self, watch: Watch, lasted_s: float, patience: Patience) -> Patience:
        """So long one rank stands alone."""
        return patience.learn_slow(alone_s=lasted_s)
