"""The report of torch 2.13.0's torchrun."""

from __future__ import annotations

import pytest

from tests.hangbench.tools.torchrun import is_alarm, read

REPORT = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_05:31:16
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 17)
"""


@pytest.mark.parametrize(("code", "cause"), [(-9, "killed_by_signal"), (1, "python_exception"), (7, None)])
def test_whoever_failed_first_is_named_with_a_cause_where_the_code_means_one(code, cause):
    answer = read(REPORT.format(code=code))

    assert (answer.culprits, answer.status, answer.cause) == ((1,), "stopped", cause)


def test_without_the_report_it_has_said_nothing():
    assert not is_alarm("[rank1]: ValueError: record 17 has 3 fields")
