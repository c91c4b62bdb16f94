"""Play the log of an incident again: the same events, judged anew, by a fresh state machine.

Enters: the bytes of `events.ddlog`. Leaves: the incidents as they end. What differs from the folder is a rule that was
changed since, or a fault. Never here: the folder's own words (the caller compares).
"""

from __future__ import annotations

from ddetect.coordinator.checkpoint import load_state
from ddetect.coordinator.eventlog import read_log
from ddetect.coordinator.events import Event, Judge, Judged, Record, Withdraw
from ddetect.coordinator.opinion import Case, JudgeBy, form_opinion
from ddetect.coordinator.state import JobState
from ddetect.model import Incident


def replay(data: bytes, judge: JudgeBy | None = None) -> dict[int, Incident]:
    """The incidents by number, in their last state. Raises ValueError when the log is damaged or lacks an event."""
    lines = read_log(data)
    first = next(lines, None)
    if first is None or not first.state:
        raise ValueError("the event log does not begin with a checkpoint")
    job = load_state(first.state)
    found: dict[int, Incident] = {}
    cases: dict[int, Case] = {}
    for line in lines:
        event: Event | None = line.event
        if line.ticket:
            event = Judged(form_opinion(cases.pop(line.ticket), judge)) if line.ticket in cases else None
        if event is not None:
            _take(job, event, line.now, line.unix_ns, found, cases)
    return found


def _take(
    job: JobState, event: Event, now: float, unix_ns: int, found: dict[int, Incident], cases: dict[int, Case]
) -> None:
    try:
        commands = job.on(event, now=now, unix_ns=unix_ns)
    except Exception:
        return  # it was undone then, and it is undone now
    for command in commands:
        match command:
            case Judge(case):
                cases[case.ticket] = case
            case Record(incident):
                found[incident.number] = incident
            case Withdraw(incident):
                found.pop(incident.number, None)
