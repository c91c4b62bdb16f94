"""The saved events, played again by a fresh state machine, give the same incident; a log that lacks one is refused."""

from __future__ import annotations

import gzip

import pytest

from ddetect.coordinator import eventlog
from ddetect.coordinator.checkpoint import dump_state, load_state
from ddetect.coordinator.eventlog import EventLog, read_log
from ddetect.coordinator.events import Ending, Event
from ddetect.coordinator.replay import replay
from ddetect.messages import JobEnds
from ddetect.report.json_ import verdict_json
from tests.unit.coordinator.test_named_before import TIMED_OUT, Judged


class Logged(Judged):
    """Writes down what it is told, as the coordinator does, and keeps what an incident's folder would have."""

    def __init__(self, *, whole: bool = False) -> None:
        self.log, self.saved = EventLog(whole=whole), b""
        super().__init__()

    def event(self, event: Event) -> None:
        self.log.note(event, self.job, now=self.now, unix_ns=int(self.now * 1e9))
        before = len(self.records)
        super().event(event)
        for record in self.records[before:]:
            self.saved += self.log.piece(record.incident.number, 2)


def hang() -> Logged:
    story = Logged()
    story.run(150, stepping=True).run(90)
    return story


ENDS = {
    "stands": [],
    "goes on": ["steps"],
    "somebody ends it": [JobEnds(signal=15), Ending("the job ended with exit code 143", 143)],
    "times out": ["timeout", Ending("the job ended with exit code 1", 1)],
}


@pytest.mark.parametrize("end", ENDS)
def test_log_played_again_gives_the_same_incident(end):
    story = hang()
    for what in ENDS[end]:
        if what == "steps":
            story.run(3, stepping=True)
        elif what == "timeout":
            story.loses(0, TIMED_OUT)
            story.run(6)
        elif isinstance(what, Ending):
            story.event(what)
        else:
            story.send(what)
    story.saved += story.log.piece(1, 2)

    incidents = replay(story.saved)

    assert [verdict_json(one) for one in incidents.values()] == [verdict_json(story.records[-1].incident)]


def test_log_begins_with_a_checkpoint_of_the_last_minute():
    """Two and a half minutes of peace are not kept."""
    story = hang()

    lines = list(read_log(story.saved))

    assert lines[0].state
    assert lines[0].now > 100 + 60


def test_log_that_lacks_an_event_is_refused():
    story = hang()
    for lost in (1, 40, -2):
        frames = _frames(gzip.decompress(story.saved))
        del frames[lost]
        with pytest.raises(ValueError, match="lacks event"):
            replay(gzip.compress(b"".join(frames)))


def test_log_without_its_beginning_is_refused():
    frames = _frames(gzip.decompress(hang().saved))
    with pytest.raises(ValueError, match="checkpoint"):
        replay(gzip.compress(b"".join(frames[1:])))


def test_log_of_a_large_job_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(eventlog, "MOST_BYTES", 1000)
    story = hang()
    log = story.log

    piece = log.piece(2, 2000)

    assert log.is_cut
    assert list(read_log(piece))[-1].event is None
    assert log.piece(2, 2000) == b""


def test_hang_of_a_day_is_kept_on_disk_and_not_in_memory():
    story = Logged()
    story.run(10, stepping=True).run(400)
    story.saved += story.log.piece(1, 2)
    held = len(story.log._frames)
    story.run(30, stepping=True)

    assert held == 0
    (incident,) = replay(story.saved).values()
    assert incident.verdict == story.records[0].incident.verdict or incident.confirmed_at_unix_ns


def test_state_is_restored_as_it_was():
    story = Logged()
    story.run(80, stepping=True)
    job = story.job

    again = load_state(dump_state(job))

    assert (again.patience, again.attempt, again.number, again.departures) == (
        job.patience, job.attempt, job.number, job.departures,
    )  # fmt: skip
    assert again.nodes.pulse(story.now) == job.nodes.pulse(story.now)


def test_whole_log_has_every_event_and_begins_with_nothing():
    """Whether or not anything is suspected; played again it gives the same incident."""
    story = Logged(whole=True)
    story.run(150, stepping=True)
    quiet = story.log.whole_piece()
    story.run(90)
    whole = quiet + story.log.whole_piece()

    lines = list(read_log(whole))

    assert lines[0].state
    assert not load_state(lines[0].state).nodes.nodes
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1].now - lines[0].now > 230
    assert story.log.whole_piece() == b""
    assert [verdict_json(one) for one in replay(whole).values()] == [verdict_json(story.records[-1].incident)]


def test_whole_log_goes_on_where_that_of_an_incident_is_cut(monkeypatch):
    monkeypatch.setattr(eventlog, "MOST_BYTES", 1000)
    story = Logged(whole=True)
    story.run(150, stepping=True).run(90)
    story.log.piece(2, 2000)
    assert story.log.is_cut
    story.run(5)

    numbers = [line.number for line in read_log(story.log.whole_piece())]

    assert numbers == list(range(1, len(numbers) + 1))


def test_coordinator_that_is_started_again_goes_on_with_the_same_log():
    """Its first checkpoint begins anew; any other gap is refused."""
    one, other = Logged(whole=True), Logged(whole=True)
    pieces = [story.run(5, stepping=True).log.whole_piece() for story in (one, other)]

    assert [line.number for line in read_log(b"".join(pieces))].count(1) == 2
    with pytest.raises(ValueError, match="lacks event"):
        list(read_log(pieces[0] + gzip.compress(b"".join(_frames(gzip.decompress(pieces[1]))[1:]))))


def _frames(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        *_, name, rest = eventlog._HEAD.unpack_from(data, at)
        size = eventlog._HEAD.size + name + rest
        found.append(data[at : at + size])
        at += size
    return found
