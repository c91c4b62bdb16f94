"""The state machine with its judge at hand: opinions are formed at once."""

from __future__ import annotations

from ddetect.coordinator.events import Command, Event, Judge, Judged
from ddetect.coordinator.opinion import JudgeBy, form_opinion
from ddetect.coordinator.state import JobState
from ddetect.model import Settings


class Inline(JobState):
    """What it hands out to be judged comes back within the same call."""

    def __init__(self, job: str, settings: Settings, *, judge: JudgeBy | None = None) -> None:
        super().__init__(job, settings)
        self.judge_by = judge

    def on(self, event: Event, *, now: float, unix_ns: int) -> list[Command]:
        commands: list[Command] = []
        for command in super().on(event, now=now, unix_ns=unix_ns):
            if isinstance(command, Judge):
                opinion = Judged(form_opinion(command.case, self.judge_by))
                commands += self.on(opinion, now=now, unix_ns=unix_ns)
            else:
                commands.append(command)
        return commands
