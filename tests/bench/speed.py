"""From the last progress to a culprit named on disk, and to the alarm, over live scenarios."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from ddetect.model import Status
from ddetect.scenarios.catalogue import TORCH
from tests.live.harness import ScenarioFailed, run_scenario

PATIENCE_S = 6.0


def learned_hangs() -> list[str]:
    """Scenarios that hang after the job has found its rhythm."""
    return [
        s.name for s in TORCH.values() if s.every_time and s.status is Status.HANG and not s.before_first_step
    ]


def measure(names: Iterable[str], seed: int = 0) -> list[tuple[str, str, float, float, bool]]:
    """(name, proof, seconds to suspicion, seconds to alarm, right culprits) for each scenario."""
    rows = []
    for name in names:
        scenario = TORCH[name]
        rank = zlib.crc32(f"{name}{seed}".encode()) % 4
        try:
            seen = run_scenario(name, rank=rank, patience=PATIENCE_S)
        except ScenarioFailed as failure:
            print(f"{name}: {str(failure)[:300]}")
            rows.append((name, scenario.proof.value, float("inf"), float("inf"), False))
            continue
        right = seen.culprit_ranks == scenario.culprits(seen.params)
        rows.append((name, scenario.proof.value, seen.to_suspicion_s, seen.to_alarm_s, right))
    return rows
