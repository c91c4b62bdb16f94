"""The recorded snapshots with the truth about each: the scenario, and the parameters that its run was started with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ddetect.model import Snapshot, Verdict
from ddetect.scenarios.catalogue import SCENARIOS, Params, Scenario
from ddetect.wire.file import read_snapshot

RECORDED = Path(__file__).with_name("recorded")
TRUTH = RECORDED / "truth.json"
ALONE = ".alone"  # recorded under `ddetect attach`, without the probe


@dataclass(frozen=True, slots=True)
class Recording:
    """One snapshot and whom its scenario struck."""

    name: str
    scenario: Scenario
    params: Params

    @property
    def culprits(self) -> tuple[int, ...]:
        """Who is at fault, by the parameters of the run."""
        return tuple(sorted(self.scenario.culprits(self.params)))

    def snapshot(self) -> Snapshot:
        """Read it."""
        return read_snapshot(RECORDED / f"{self.name}.ddsnap")

    def is_truth(self, verdict: Verdict) -> bool:
        """Whether status, cause and culprits are those of the scenario."""
        said = (verdict.status, verdict.cause, verdict.culprit_ranks)
        return said == (self.scenario.status, self.scenario.cause, self.culprits)


def recordings(*, alone: bool) -> list[Recording]:
    """All that there are, with or without the probe."""
    truth = json.loads(TRUTH.read_text())
    return [
        Recording(name, SCENARIOS[name.removesuffix(ALONE)], Params(**params))
        for name, params in truth.items()
        if name.endswith(ALONE) is alone
    ]
