"""The slow look at the Flight Recorder of ranks that take no steps: what counts as a move, and when it was."""

from __future__ import annotations

import math
import time
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

from ddetect.agent.beat import Recorder
from ddetect.agent.flight import Flight
from ddetect.evidence.flight_recorder import Digest

MEMBER: Any = SimpleNamespace(key=(7, 1))


class AtOnce(Executor):
    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        function(*args, **kwargs)
        return Future()


class Answers:
    """A reader whose rank has completed as many collectives as is set."""

    completed = 0

    def read(self, member: Any) -> Flight:
        group = SimpleNamespace(enqueued=self.completed, completed=self.completed)
        return Flight(Digest(0, (group,), False))  # type: ignore[arg-type]


def recorder(answers: Answers) -> Recorder:
    made = Recorder(answers, AtOnce(), cpu_s=lambda: 0.0)  # type: ignore[arg-type]
    return made


def ask(made: Recorder, *, page_moved_ns: int) -> float:
    """Ask once, whatever the time since the last round; the age of the last move."""
    made._poll_at_ns = 0
    made.poll([(MEMBER, page_moved_ns)], time.monotonic_ns())
    return made.moved_age_s(MEMBER, time.monotonic_ns())


def test_collectives_that_no_page_saw_are_a_move():
    """DDP without an optimizer: nothing but the recorder tells."""
    answers = Answers()
    made = recorder(answers)
    first = ask(made, page_moved_ns=0)
    answers.completed = 5

    assert math.isinf(first)
    assert ask(made, page_moved_ns=0) < 1.0


def test_collectives_that_the_page_counted_are_no_move_of_a_later_time():
    """Seen three seconds late they would stretch the gap that a hang has begun, and be learned as a pause."""
    answers = Answers()
    made = recorder(answers)
    ask(made, page_moved_ns=0)
    answers.completed = 5

    assert math.isinf(ask(made, page_moved_ns=time.monotonic_ns()))
