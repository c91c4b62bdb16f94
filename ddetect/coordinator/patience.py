"""How long is too long, learned from the job itself. Gaps in, limits out.

Enters: how long each phase has lasted without activity while the job was well. Leaves: when to look closer
(`suspect_after_s`) and when to say so out loud (`confirm_after_s`). Kept across attempts.
Never here: clocks, I/O, what a hang is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ddetect.model import Limit, Phase, Settings

# A gap as long as the longest one seen is no news; half as long again is. The second covers the beat's period.
_MARGIN = 1.5
_SLACK_S = 1.0
# Alarms are dearer than looks: three times the longest healthy gap of the same phase.
_ALARM_MARGIN = 3.0
_LEARNED_STEPS = 5
_STARTUP_MARGIN = 5.0
_LEARN_AT_MOST = 10.0  # patiences


@dataclass(frozen=True, slots=True)
class Patience:
    """What this job has taught us about its own pauses. A value: learning makes another one."""

    settings: Settings
    longest_s: Mapping[Phase, float] = field(default_factory=dict)
    seen: Mapping[Phase, int] = field(default_factory=dict)
    step_s: float = 0.0  # seconds per step, smoothed; 0 before it is known
    paced_at: tuple[int, float] | None = None  # steps done, and when
    running: tuple[Phase, float] = (Phase.OTHER, 0.0)  # the gap that has not ended yet

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

    def learn(self, phase: Phase, gap_s: float) -> Patience:
        """A gap that ended by itself is normal for its phase; an outage of hours must not become the norm."""
        gap_s = min(gap_s, _LEARN_AT_MOST * self.settings.patience_s)
        longest = max(self.longest_s.get(phase, 0.0), gap_s)
        return replace(
            self,
            longest_s={**self.longest_s, phase: longest},
            seen={**self.seen, phase: self.seen.get(phase, 0) + 1},
        )

    def suspect_after_s(self, phase: Phase, *, steps: int) -> float:
        """Look closer after this long without activity. Before the job has a rhythm: the start-up limit."""
        if steps < _LEARNED_STEPS:
            return self.settings.startup_s
        longest = self.longest_s.get(phase, 0.0)
        learned = longest * _MARGIN + _SLACK_S if longest > self.settings.floor_s / 2 else 0.0
        # A look costs the job a few milliseconds: however patient alarms have become, looks are not put off for long.
        return max(self.settings.floor_s, min(learned, self.settings.patience_s), 3.0 * self.step_s)

    def confirm_after_s(self, phase: Phase, *, steps: int) -> float:
        """Alarm after this long without motion, for causes that only time can prove."""
        if steps < _LEARNED_STEPS:  # imports, data sets and compilers take their time before the first step
            return _STARTUP_MARGIN * self.settings.patience_s
        return max(self.settings.patience_s, _ALARM_MARGIN * self.longest_s.get(phase, 0.0))

    def learned(self, steps: int) -> bool:
        """Has the job found its rhythm?"""
        return steps >= _LEARNED_STEPS

    def limits(self) -> tuple[Limit, ...]:
        """What was learned, for the snapshot."""
        return tuple(
            Limit(phase, self.longest_s[phase], self.seen[phase]) for phase in sorted(self.longest_s)
        )
