"""What a trigger may ask of the job: how it moves, who died, whether somebody wants it to end. Read only."""

from __future__ import annotations

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

    @property
    def quiet_limit_s(self) -> float:
        """Look closer after so long without a moving counter."""
        pulse = self.pulse
        assert pulse is not None
        limit = self.patience.suspect_after_s(pulse.phase, steps=pulse.steps)
        if pulse.leaving:  # a job that ends takes its time, and nobody is waited for
            limit = max(limit, self.settings.startup_s)
        return limit

    @property
    def quiet_s(self) -> float:
        """So long no counter of any rank has moved, as far as we can see."""
        return self.pulse.seen_at - self.pulse.activity_at if self.pulse is not None else 0.0

    @property
    def slow_limit_s(self) -> float:
        """Look closer after so long when ranks move and the job does not, or one of them stands alone."""
        return max(SLOW_STALL_S, 5 * self.quiet_limit_s)


SLOW_STALL_S = 30.0
