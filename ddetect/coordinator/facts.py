"""What a trigger may ask of the job: how it moves, who died, whether somebody wants it to end. Read only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddetect.coordinator.events import Ending
from ddetect.coordinator.nodes import Nodes, Pulse
from ddetect.coordinator.patience import Patience
from ddetect.model import Gone, Settings


@dataclass(frozen=True, slots=True)
class Facts:
    """The job as of now."""

    settings: Settings
    nodes: Nodes
    patience: Patience
    pulse: Pulse | None
    deaths: tuple[tuple[Gone, float], ...] = ()  # those that no judgement has explained yet, with when
    ending: Ending | None = None
    awake_since: float = -math.inf  # before that the job, or we ourselves, were frozen

    @property
    def quiet_limit_s(self) -> float:
        """It is a suspicion after so long without a moving counter."""
        assert self.pulse is not None
        return self.suspect_after_s(None)

    def suspect_after_s(self, place: str | None) -> float:
        """The same at a place; None: nobody has looked where."""
        pulse = self.pulse
        assert pulse is not None
        limit = self.patience.suspect_after_s(pulse.phase, place, steps=pulse.steps)
        if pulse.leaving:  # a job that ends takes its time, and nobody is waited for
            limit = max(limit, self.settings.startup_s)
        return limit

    @property
    def quiet_s(self) -> float:
        """So long no counter of any rank has moved, as far as we can see."""
        return self._since(self.pulse.activity_at) if self.pulse is not None else 0.0

    @property
    def stepless_s(self) -> float:
        """So long no step was made; 0 before the first."""
        if self.pulse is None or math.isinf(self.pulse.step_at):
            return 0.0
        return self._since(self.pulse.step_at)

    @property
    def alone_s(self) -> float:
        """So long the rank that has been quiet longest has not moved."""
        return self._since(self.pulse.quiet_at) if self.pulse is not None else 0.0

    def _since(self, at: float) -> float:
        assert self.pulse is not None
        return max(0.0, self.pulse.seen_at - max(at, self.awake_since))
