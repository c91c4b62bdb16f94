"""What is usual in this job, learned from the job itself. Gaps in, gaps and first limits out.

Enters: how long the job stood still, in which phase and (where somebody looked) at which place, while it was well.
Leaves: when to look closer (`suspect_after_s`), and the gaps themselves; when a stillness is an alarm says
correlate/limits.py. Kept across attempts. Never here: clocks, I/O, what a hang is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ddetect.correlate.limits import LEARNED_STEPS, PUT_OFF_FAR, usual_s
from ddetect.model import Limit, Phase, Settings

# A gap as long as the longest one seen is no news; half as long again is. The second covers the beat's period.
_MARGIN = 1.5
_SLACK_S = 1.0
SLOW_STALL_S = 30.0
"""Before it is known how long a job moves without a step, or one rank stands alone: so long is no news."""
_MOST_PLACES = 256

Gap = tuple[Phase, str]  # the phase, and the place, empty where nobody looked


@dataclass(frozen=True, slots=True)
class Patience:
    """What this job has taught us about its own pauses. A value: learning makes another one."""

    settings: Settings
    longest_s: Mapping[Gap, float] = field(default_factory=dict)
    seen: Mapping[Gap, int] = field(default_factory=dict)
    step_s: float = 0.0  # seconds per step, smoothed; 0 before it is known
    paced_at: tuple[int, float] | None = None  # steps done, and when
    running: tuple[Phase, float] = (Phase.OTHER, 0.0)  # the gap that has not ended yet
    stepless_s: float = 0.0  # the longest that it moved without a step,
    alone_s: float = 0.0  # and that one rank stood while others moved
    slow: tuple[float, float] = (0.0, 0.0)  # the same two, of those that have not ended yet

    def pace(self, steps: int, at: float) -> Patience:
        """Note how many steps were done when; beats of the same second count once."""
        before = self.paced_at
        if before is None or steps < before[0] or not before[0]:
            # From the first step on: how long the start took says nothing of a step.
            return self if before == (steps, at) else replace(self, paced_at=(steps, at))
        if steps > before[0] and at - before[1] >= 1.0:
            newest = (at - before[1]) / (steps - before[0])
            step_s = newest if not self.step_s else 0.8 * self.step_s + 0.2 * newest
            return replace(self, step_s=step_s, paced_at=(steps, at))
        return self

    def see_gap(self, phase: Phase, gap_s: float) -> Patience:
        """A gap as it is now. It is learned when it has ended: a hang must not stretch its own limit."""
        before, longest = self.running
        if gap_s < longest:
            return replace(self.learn(before, longest), running=(phase, gap_s))
        return replace(self, running=(phase, gap_s))

    def see_nothing(self) -> Patience:
        """The gap is looked into from now on, and learned with its place when that is over."""
        return replace(self, running=(Phase.OTHER, 0.0))

    def see_slow(self, stepless_s: float, alone_s: float) -> Patience:
        """How long no step was made, and how long the quietest rank has stood; each is learned when it has ended."""
        now = (stepless_s, alone_s)
        ended = [old if new < old else 0.0 for old, new in zip(self.slow, now, strict=True)]
        return replace(self.learn_slow(stepless_s=ended[0], alone_s=ended[1]), slow=now)

    def learn_slow(self, *, stepless_s: float = 0.0, alone_s: float = 0.0) -> Patience:
        """Such a time that was looked into, and ended by itself."""
        most = PUT_OFF_FAR * self.settings.patience_s
        return replace(
            self,
            stepless_s=min(max(self.stepless_s, stepless_s), most),
            alone_s=min(max(self.alone_s, alone_s), most),
        )

    def learn(self, phase: Phase, gap_s: float, places: Iterable[str] = ("",)) -> Patience:
        """A gap that ended by itself is normal where it was; an outage of hours must not become the norm."""
        gap_s = min(gap_s, PUT_OFF_FAR * self.settings.patience_s)
        longest, seen = dict(self.longest_s), dict(self.seen)
        for place in places:
            key = (phase, place) if (phase, place) in longest or len(longest) < _MOST_PLACES else (phase, "")
            longest[key] = max(longest.get(key, 0.0), gap_s)
            seen[key] = seen.get(key, 0) + 1
        return replace(self, longest_s=longest, seen=seen)

    def usual_s(self, phase: Phase, place: str | None = None) -> float:
        """The longest healthy gap at this place; without a place, in all of the phase. 0 if none is known."""
        if place is not None:
            return usual_s(self.limits(), phase, place)
        return max((gap for (of, _), gap in self.longest_s.items() if of is phase), default=0.0)

    def suspect_after_s(self, phase: Phase, place: str | None = None, *, steps: int) -> float:
        """It is a suspicion after this long without activity. Before the job has a rhythm: the start-up limit."""
        if steps < LEARNED_STEPS:
            return self.settings.startup_s
        usual = self.usual_s(phase, place)
        learned = usual * _MARGIN + _SLACK_S if usual > self.settings.floor_s / 2 else 0.0
        return max(self.settings.floor_s, learned)

    def stepless_after_s(self) -> float:
        """Look closer after so long in which ranks move and the job makes no step."""
        return max(SLOW_STALL_S, self.stepless_s * _MARGIN + _SLACK_S)

    def alone_after_s(self) -> float:
        """Look closer after so long in which one rank stands while others move."""
        return max(SLOW_STALL_S, self.alone_s * _MARGIN + _SLACK_S)

    def learned(self, steps: int) -> bool:
        """Has the job found its rhythm?"""
        return steps >= LEARNED_STEPS

    def limits(self) -> tuple[Limit, ...]:
        """What was learned, for the snapshot."""
        return tuple(
            Limit(phase, self.longest_s[phase, place], self.seen[phase, place], place)
            for phase, place in sorted(self.longest_s)
        )
