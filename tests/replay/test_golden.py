"""The sentences of every recording, word for word: whoever changes one sees it in the diff."""

from __future__ import annotations

import pytest

from tests.replay.golden import GOLDEN, every_recording, report_of
from tests.replay.recordings import Recording


@pytest.mark.parametrize("recording", every_recording(), ids=lambda one: one.name)
def test_report_of_a_recording_reads_as_before(recording: Recording) -> None:
    """Meant to change? `python -m tests.replay.golden`, and read the diff."""
    assert report_of(recording) == (GOLDEN / f"{recording.name}.txt").read_text(encoding="utf-8")


def test_no_golden_report_is_left_without_its_recording() -> None:
    """A report that nobody compares guards nothing."""
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {one.name for one in every_recording()}
