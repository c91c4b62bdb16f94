"""Reasons to look closer, one file each, asked in this order. The first that suspects something is followed."""

from __future__ import annotations

from ddetect.coordinator.triggers.death import Death
from ddetect.coordinator.triggers.quiet import Quiet
from ddetect.coordinator.triggers.stall import Stall, Stepless
from ddetect.coordinator.triggers.trigger import Trigger

DEATH = Death.name
TRIGGERS: dict[str, Trigger] = {one.name: one for one in (Death(), Stall(), Stepless(), Quiet())}
