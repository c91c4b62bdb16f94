"""How long is too long, learned from the job itself. Gaps in, limits out.

Enters: how long each phase has lasted without activity while the job was well. Leaves: when to look closer
(`suspect_after_s`) and when to say so out loud (`confirm_after_s`). Kept across attempts.
Never here: clocks, I/O, what a hang is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ddetect.model import Limit, Phase, Settings

# A gap as long as the longest one seen is no news; half as long again is. The second covers the beat's period.
_MARGIN = 1.5
_SLACK_S = 1.0
# Alarms are dearer than looks: three times the longest healthy gap of the same phase.
_ALARM_MARGIN = 3.0
_LEARNED_STEPS = 5
_STARTUP_MARGIN = 5.0
_LEARN_AT_MOST = 10.0  # patiences


@dataclass(slots=True)
class Patience:
    """What this job has taught us about its own pauses."""

    settings: Settings
    longest_s: dict[Phase, float] = field(default_factory=dict)
    seen: dict[Phase, int] = field(default_factory=dict)
    step_s: float = 0.0  # seconds per step, smoothed; 0 before it is known
    _paced: tuple[int, float] | None = None
    _running: tuple[Phase, float] = (Phase.OTHER, 0.0)

    def pace(self, steps: int, at: float) -> None:
        """Note how many steps were done when; beats of the same second count once."""
        if self._paced is None or steps < self._paced[0] or not self._paced[0]:
            self._paced = (
                steps,
                at,
            )  # from the first step on: how long the start took says nothing of a step
        elif steps > self._paced[0] and at - self._paced[1] >= 1.0:
            newest = (at - self._paced[1]) / (steps - self._paced[0])
            self.step_s = newest if not self.step_s else 0.8 * self.step_s + 0.2 * newest
            self._paced = (steps, at)

    def see_gap(self, phase: Phase, gap_s: float) -> None:
        """A gap as it is now. It is learned when it has ended: a hang must not stretch its own limit."""
        before, longest = self._running
        if gap_s < longest:
            self.learn(before, longest)
            longest = 0.0
        if gap_s >= longest:
            self._running = (phase, gap_s)

    def learn(self, phase: Phase, gap_s: float) -> None:
        """A gap that ended by itself is normal for its phase; an outage of hours must not become the norm."""
        gap_s = min(gap_s, _LEARN_AT_MOST * self.settings.patience_s)
        self.longest_s[phase] = max(self.longest_s.get(phase, 0.0), gap_s)
        self.seen[phase] = self.seen.get(phase, 0) + 1

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
