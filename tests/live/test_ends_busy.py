"""Somebody ends a healthy job at the wrong moment: ddetect suspects a pause just then, and the machine is busy.

DDETECT_ENDS: how often for each signal (default 1; 10 makes the twenty that are promised).
"""

from __future__ import annotations

import os
from itertools import product

import pytest

from tests.live.busy import busy_cores
from tests.live.ends import CTRL_C, SIGINT, SIGTERM, End
from tests.live.harness import run_scenario

TIMES = int(os.environ.get("DDETECT_ENDS") or 1)
ENDS = [(SIGTERM, SIGTERM), (SIGINT, CTRL_C)]  # in turn
RUNS = [(ends[time % 2], time) for time, ends in product(range(TIMES), ENDS)]
PAUSE_S = "60"  # longer than the test, shorter than patience
LATER_S = (
    0.0,
    0.4,
    1.1,
    2.3,
)  # from the suspicion on disk: looks, judgements and writes are then at other points


@pytest.mark.parametrize(("end", "time"), RUNS, ids=lambda one: getattr(one, "name", str(one)))
def test_end_of_a_healthy_job_under_suspicion_is_no_alarm(end: End, time: int) -> None:
    """No alarm, and nobody is said to have died: what was suspected is what stands there, closed by that end."""
    with busy_cores():
        result = run_scenario(
            "healthy_remote_evaluation",
            rank=time % 3,
            world_size=3,
            step_ms=30,
            patience=120.0,
            until="suspected",
            end=end,
            end_after_s=LATER_S[time % len(LATER_S)],
            extra=("--evaluate-s", PAUSE_S),
        )

    alarms = [one["summary"] for one in result.incidents if one.get("confirmed_at_unix_ns")]
    assert alarms == []
    assert [one["summary"] for one in result.incidents if one["status"] == "stopped"] == []
    closed = [one["closed"]["reason"] for one in result.incidents]
    assert [reason for reason in closed if not reason.startswith("the job was asked to end by SIG")] == []
    assert result.exit_code != 0
