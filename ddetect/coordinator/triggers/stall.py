"""The job stands still: no counter of any rank moves; or ranks move, and the job makes no step."""

from __future__ import annotations

import math

from ddetect.coordinator.due import patience_is_up
from ddetect.coordinator.facts import Facts
from ddetect.coordinator.opinion import Opinion, key
from ddetect.coordinator.patience import Patience
from ddetect.coordinator.triggers.trigger import Suspicion
from ddetect.coordinator.watch import Watch
from ddetect.model import Proof, Status, Verdict


class Stall:
    """Nothing has moved for longer than is usual."""

    name = "stall"

    def suspect(self, facts: Facts) -> Suspicion | None:
        """Progress is a step, if steps were being made until just now; else whatever moved last."""
        pulse = facts.pulse
        if pulse is None or facts.quiet_s <= facts.quiet_limit_s:
            return None
        stepping = pulse.activity_at - pulse.step_at < facts.quiet_limit_s
        since = pulse.step_at if stepping else pulse.activity_at
        return Suspicion(since, pulse.phase, pulse.steps, pulse.quiet_rank)

    def is_over(self, watch: Watch, facts: Facts) -> bool:
        """Not "later than before": ages jitter with the network. Recent activity is what we want."""
        return facts.pulse is not None and facts.quiet_s < facts.settings.floor_s

    def decides(self, watch: Watch, facts: Facts, now: float) -> bool:
        """Several looks first, unless nobody answers."""
        return watch.taken + 1 >= facts.settings.samples or watch.empty > 0

    def is_time(
        self, watch: Watch, opinion: Opinion, verdict: Verdict, facts: Facts, now: float, *, kept: bool
    ) -> tuple[Watch, bool]:
        """At once when every look by itself proves the same; after patience when only time can."""
        if opinion.asked or (facts.ending is not None and not opinion.last):
            return watch, False
        if kept and opinion.last:
            return watch, True  # the job has died of it
        if verdict.proof is Proof.STRUCTURAL and verdict.status is not Status.UNDECIDED and not kept:
            agreed = {*opinion.alone} == {key(verdict)}
            return watch, agreed and len(opinion.alone) >= facts.settings.samples
        return patience_is_up(watch, opinion, verdict, facts, now, looks_again=True)

    def learn(self, watch: Watch, lasted_s: float, patience: Patience) -> Patience:
        """At every place where it was seen meanwhile."""
        return patience.learn(watch.phase, lasted_s, watch.places or ("",))


class Stepless(Stall):
    """Ranks move, and no step is made."""

    name = "step"

    def suspect(self, facts: Facts) -> Suspicion | None:
        """A job that has its rhythm has lost it."""
        pulse = facts.pulse
        if pulse is None or not facts.patience.learned(pulse.steps) or pulse.step_at == -math.inf:
            return None
        if facts.stepless_s <= facts.patience.stepless_after_s():
            return None
        return Suspicion(pulse.step_at, pulse.phase, pulse.steps, pulse.quiet_rank)

    def is_over(self, watch: Watch, facts: Facts) -> bool:
        """A step was made."""
        return facts.pulse is not None and facts.pulse.step_at > watch.since + 0.001

    def learn(self, watch: Watch, lasted_s: float, patience: Patience) -> Patience:
        """So long it goes without a step. That nothing moved at some place for as long, it did not say."""
        return patience.learn_slow(stepless_s=lasted_s)
