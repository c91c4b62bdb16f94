"""For tools that speak in the job's log: when the first alarm was there, when the final answer was, and what it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.hangbench.job import Job

LOOK_EVERY_S = 0.1
SETTLE_S = 1.0  # an alarm makes the ranks run again: what the clock saw in this time before it is not trusted
STILL_S = 1.0  # without a move for that long before the alarm, the job stood still
LAST_WORDS_S = 15.0  # from the alarm to the launcher's final error


@dataclass(frozen=True, slots=True)
class Answer:
    """What a log says about a hang."""

    culprits: tuple[int, ...] | None = None
    status: str | None = None
    cause: str | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Overheard:
    """Times are unix seconds; `alarm_at` is None if there was none until the job's end or the timeout."""

    alarm_at: float | None
    named_at: float | None
    last_progress: float | None
    answer: Answer


def overhear(
    job: Job, is_alarm: Callable[[str], bool], read: Callable[[str], Answer], timeout_s: float
) -> Overheard:
    """Wait for the alarm, then for the job's last words."""
    moves: list[tuple[float, float | None]] = []  # when we looked, and when the clock had last seen it move
    answers: list[tuple[float, Answer]] = []
    alarm_at, deadline = None, time.time() + timeout_s
    while True:
        ended, words, now = job.ended, job.words, time.time()
        moves.append((now, job.clock.last_progress))
        if alarm_at is None and is_alarm(words):
            alarm_at, deadline = now, now + LAST_WORDS_S
        if alarm_at is not None:
            answers.append((now, read(words)))
        if ended or now > deadline:
            break
        time.sleep(LOOK_EVERY_S)
    if alarm_at is None:
        return Overheard(None, None, job.clock.last_progress, Answer())
    final = answers[-1][1]
    named_at = next(at for at, answer in answers if answer.culprits == final.culprits)
    return Overheard(
        alarm_at, named_at if final.culprits is not None else None, last_move_before(moves, alarm_at), final
    )


def last_move_before(moves: list[tuple[float, float | None]], alarm_at: float) -> float | None:
    """The last progress that is no echo of the alarm: ranks that raise or are killed look as if they moved."""
    earlier = next((moved for looked, moved in reversed(moves) if looked <= alarm_at - SETTLE_S), None)
    if earlier is not None and earlier < alarm_at - SETTLE_S - STILL_S:
        return earlier
    at_alarm = next((moved for looked, moved in reversed(moves) if looked <= alarm_at), None)
    return min(at_alarm, alarm_at) if at_alarm is not None else None
