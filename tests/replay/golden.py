"""The report of every recording, kept as a file: `python -m tests.replay.golden` writes them anew.

Enters: the recorded snapshots. Leaves: `golden/NAME.txt`, the report.txt that a person would read. A change of words is
so seen in the diff, and meant. Never here: whether the words are right (test_replay.py holds the truth).
"""

from __future__ import annotations

from pathlib import Path

from ddetect.cli.diagnose import replay
from ddetect.correlate.judge import judge
from ddetect.report.text import format_report
from tests.replay.recordings import Recording, recordings

GOLDEN = Path(__file__).with_name("golden")


def every_recording() -> list[Recording]:
    """With and without the probe."""
    return [*recordings(alone=False), *recordings(alone=True)]


def report_of(recording: Recording) -> str:
    """What report.txt says when this snapshot is judged today."""
    snapshot = recording.snapshot()
    return format_report(replay(snapshot, judge(snapshot)))


def write_all() -> None:
    """Replace all golden files; what belongs to no recording goes."""
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for recording in every_recording():
        (GOLDEN / f"{recording.name}.txt").write_text(report_of(recording), encoding="utf-8")


if __name__ == "__main__":
    write_all()
