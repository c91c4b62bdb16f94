"""An event that raises has not happened: the state after it is the state before, and the next event is taken in."""

from __future__ import annotations

import random

import pytest

from ddetect.coordinator import state
from ddetect.coordinator.desk import Desk
from ddetect.coordinator.events import Heard, Lost, Tick
from ddetect.coordinator.state import JobState
from ddetect.coordinator.undoable import Undoable
from ddetect.messages import Hello, JobEnds, NodeGone, NodeRoster
from ddetect.model import Departure, Gone, Role, Roster, Settings
from tests.unit.coordinator.test_named_before import hangs


def picture(job: JobState) -> dict[str, object]:
    """Everything there is, by identity of the values: they are replaced, never changed."""
    return {
        **{name: value for name, value in vars(job).items() if name != "nodes"},
        "there": list(job.nodes.nodes.items()),
        "left": list(job.nodes.left.items()),
        "attempt_at": job.nodes.attempt_at,
    }


GONE = NodeGone((Gone(1, Role.RANK, -1, 12, Departure.RAISED, 0.1, "ValueError: bad shard"),))
NEW = NodeRoster(9, 2, 1, Roster([0, 1], [0, 0], [0, 0], [21, 22], [70, 71], ("node-0",)))
EVENTS = {
    "a death": Heard("node-0", GONE), "a restart": Heard("node-0", NEW), "a new node": Heard("node-1", NEW),
    "a wish": Heard("node-0", JobEnds(signal=15)), "silence": Lost("node-0"), "a tick": Tick(),
    "a greeting": Heard("node-7", Hello("node-7", "job")),
}  # fmt: skip
DEEDS = ("_facts", "_suspect", "_ask", "_hand_out", "_finish", "_outlive")


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("deed", DEEDS)
def test_event_that_raises_half_way_is_undone(event, deed, monkeypatch):
    """Whatever fails, and wherever."""
    job = hangs(12).job
    before = picture(job)

    def fails(*_args, **_more):
        raise ZeroDivisionError(deed)

    monkeypatch.setattr(state.JobState, deed, fails)
    try:
        job.on(event, now=1000.0, unix_ns=10**12)
    except ZeroDivisionError:
        assert picture(job) == before


def test_fault_is_counted_and_said_once_and_silences_nobody(monkeypatch):
    job, said = JobState("job", Settings()), []
    desk = Desk(job, said.append)
    right = state.JobState._facts
    monkeypatch.setattr(state.JobState, "_facts", lambda *_: 1 / 0)
    assert [desk.take(Tick()) for _ in range(3)] == [[], [], []]
    monkeypatch.setattr(state.JobState, "_facts", right)
    desk.take(Heard("node-0", Hello("node-0", "job")))

    assert (desk.faults, len(said)) == (3, 1)
    assert "node-0" in job.nodes.nodes


def test_dictionary_is_taken_back_to_how_it_was():
    """Also the order: nodes are shown in the order in which they came."""
    draw = random.Random(7)
    kept: Undoable[int] = Undoable()
    for name in "abcdef":
        kept[name] = 0
    for _ in range(300):
        before, undo = list(kept.items()), kept.begin()
        for _ in range(draw.randrange(6)):
            name = draw.choice("abcdefgh")
            if name in kept and draw.random() < 0.4:
                del kept[name]
            else:
                kept[name] = draw.randrange(100)
        if draw.random() < 0.5:
            undo()
            assert list(kept.items()) == before
