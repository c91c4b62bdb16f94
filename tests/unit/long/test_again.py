"""The log of a whole job, played against the rules: what was said then, and what would be said by other settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddetect.coordinator.eventlog import EventLog
from ddetect.coordinator.events import Event
from tests.long import again
from tests.long.playing import play
from tests.unit.coordinator.test_named_before import Judged


class Whole(Judged):
    """Two ranks under the real judge; every event is written down, opinions too, as the coordinator does."""

    def __init__(self) -> None:
        self.log = EventLog(whole=True)
        super().__init__()

    def event(self, event: Event) -> None:
        self.log.note(event, self.job, now=self.now, unix_ns=int(self.now * 1e9))
        super().event(event)


IMPATIENT = {"patience_s": 15.0}


def hang(*, stepping_s: float = 60, stands_s: float = 90) -> Whole:
    story = Whole()
    story.run(stepping_s, stepping=True).run(stands_s)
    return story


def test_what_was_said_is_said_again():
    """At about the same time: opinions take a moment."""
    story = hang()

    played = play(story.log.whole_piece())

    said = [record.incident for record in story.records]
    assert (played.missing, played.faults) == (0, 0)
    assert [(word.stage, word.ranks) for word in played.words] == [
        (one.stage.value, one.verdict.culprit_ranks) for one in said
    ]
    began = story.records[0].incident.judged_at_unix_ns / 1e9
    assert abs(played.words[0].at - began) < 3.0


def test_other_settings_change_when_it_is_said():
    """More patience than the log is long: suspected as before, and no alarm."""
    data = hang().log.whole_piece()

    impatient, patient = play(data, IMPATIENT), play(data, {"patience_s": 1000.0})

    assert impatient.words[-1].alarm
    assert patient.words
    assert not any(word.alarm for word in patient.words)
    assert patient.words[0].at == pytest.approx(impatient.words[0].at, abs=3.0)


def test_what_goes_on_is_taken_back():
    story = hang(stands_s=30)
    story.run(20, stepping=True)

    words = play(story.log.whole_piece()).words

    assert words[-1].stage == "withdrawn"


def test_look_that_the_log_does_not_have_is_counted(monkeypatch):
    """Rules that look where nobody looked then are told so, and not left to guess."""
    story = hang()
    data = story.log.whole_piece()
    monkeypatch.setattr("tests.long.playing.LATE_S", -1.0)
    monkeypatch.setattr("tests.long.playing.NEXT_S", -1.0)

    borrowed = play(data)
    monkeypatch.setattr("tests.long.playing.NEAR_S", -1.0)
    without = play(data)

    assert borrowed.borrowed > 0
    assert borrowed.missing == 0
    assert without.missing > 0


def test_damaged_log_is_refused():
    story = hang()
    story.log.whole_piece()
    story.run(10)

    with pytest.raises(ValueError, match="checkpoint"):
        play(story.log.whole_piece())


def test_folder_of_a_run_is_told_in_a_few_lines(tmp_path: Path, capsys):
    """Relative to the hang; the score is that of the rules as they are."""
    story = hang()
    hung_at = 100.0 + 60.0
    folder = tmp_path / "out" / "steps_12s.hang"
    folder.mkdir(parents=True)
    (folder / again.EVENTS).write_bytes(story.log.whole_piece())
    about = {"name": "steps_12s.hang", "shorter": 10, "patience_s": None, "began": 90.0, "hung_at": hung_at}
    (folder / again.ABOUT).write_text(json.dumps(about))

    assert again.main([str(tmp_path / "out"), "steps_*", "--set", "patience_s=15"]) == 0

    told = capsys.readouterr().out
    assert "usual 2 s: suspected +" in told
    assert " s suspected " in told
    assert " s confirmed " in told
    assert "1 runs in" in told


def test_setting_that_nobody_has_is_refused():
    with pytest.raises(SystemExit):
        again.main(["out", "--set", "patients_s=3"])
    assert again.setting("patience_s=3") == ("patience_s", 3.0)
