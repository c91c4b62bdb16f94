"""An older TensorFlow, in an environment with a protobuf that does not suit ddetect, watched from ddetect's own.

`make frameworks` makes that environment; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os

import pytest

from ddetect.scenarios.catalogue import TENSORFLOW, Params
from tests.live.test_scenarios import run
from tests.live.test_tensorflow import WITHIN_S, assert_is_truth

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not os.environ.get("DDETECT_OLD_TENSORFLOW"), reason="an older TensorFlow: make frameworks"
    ),
]


@pytest.mark.parametrize("name", ["tf_replica_eager", "tf_user_sleep"])
def test_job_of_an_older_tensorflow_gets_the_verdict_that_is_its_truth(name: str) -> None:
    """One of several replicas, one of several workers."""
    scenario = TENSORFLOW[name]

    assert_is_truth(run(scenario, Params(rank=1, world_size=3, at=25, step_ms=40), WITHIN_S), scenario)
