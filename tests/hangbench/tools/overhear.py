"""For tools that speak in the job's log: when the first alarm was there, when the final answer was, and what it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddetect.model import Status
from ddetect.scenarios.catalogue import Scenario
from tests.hangbench.job import Job, running
from tests.hangbench.outcome import Outcome
from tests.hangbench.tools.asking import healthy_end
from tests.hangbench.tools.tool import HEALTHY_CAP_S, WATCH_S

LOOK_EVERY_S = 0.1
SETTLE_S = 1.0  # an alarm makes the ranks run again: what the clock saw in this time before it is not trusted
QUIET_S = 1.0  # without a move for that long before the alarm, the job stood still
LAST_WORDS_S = 15.0  # from the alarm to the launcher's final error


@dataclass(frozen=True, slots=True)
class Answer:
    """What a log says about a hang."""

    culprits: tuple[int, ...] | None = None
    status: str | None = None
    cause: str | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Speaker:
    """How to understand a tool: whether a log holds its alarm, and what it says."""

    is_alarm: Callable[[str], bool]
    read: Callable[[str], Answer]
    wait_s: float = WATCH_S


def listen(
    command: list[str],
    scenario: Scenario,
    folder: Path,
    speaker: Speaker,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run the job until the tool's last words after an alarm; a healthy one until its end."""
    healthy = scenario.status is Status.HEALTHY
    with running(command, folder, env) as job:
        outcome = _overhear(job, speaker, HEALTHY_CAP_S if healthy else speaker.wait_s)
        if outcome.alarm_at is None and healthy:
            return Outcome(last_progress=outcome.last_progress, failed=healthy_end(job))
        if outcome.alarm_at is None:
            code = job.process.poll()
            return Outcome(last_progress=outcome.last_progress, says=f"nothing (exit code {code})")
    return outcome


def _overhear(job: Job, speaker: Speaker, timeout_s: float) -> Outcome:
    moves: list[tuple[float, float | None]] = []  # when we looked, and when the clock had last seen it move
    answers: list[tuple[float, Answer]] = []
    alarm_at, deadline = None, time.time() + timeout_s
    while True:
        ended, words, now = job.ended, job.words, time.time()
        moves.append((now, job.clock.last_progress))
        if alarm_at is None and speaker.is_alarm(words):
            alarm_at, deadline = now, now + LAST_WORDS_S
        if alarm_at is not None:
            answers.append((now, speaker.read(words)))
        if ended or now > deadline:
            break
        time.sleep(LOOK_EVERY_S)
    if alarm_at is None:
        return Outcome(last_progress=job.clock.last_progress)
    final = answers[-1][1]
    return Outcome(
        alarm_at=alarm_at,
        named_at=said_since(answers) if final.culprits is not None else None,
        last_progress=last_move_before(moves, alarm_at),
        culprits=final.culprits,
        status=final.status,
        cause=final.cause,
        says=final.says,
    )


def said_since(answers: list[tuple[float, Answer]]) -> float:
    """Since when the final culprits and cause were said without a change."""
    final = answers[-1][1]
    since = answers[-1][0]
    for at, answer in reversed(answers):
        if (answer.culprits, answer.cause) != (final.culprits, final.cause):
            break
        since = at
    return since


def last_move_before(moves: list[tuple[float, float | None]], alarm_at: float) -> float | None:
    """The last progress that is no echo of the alarm: ranks that raise or are killed look as if they moved."""
    earlier = next((moved for looked, moved in reversed(moves) if looked <= alarm_at - SETTLE_S), None)
    if earlier is not None and earlier < alarm_at - SETTLE_S - QUIET_S:
        return earlier
    at_alarm = next((moved for looked, moved in reversed(moves) if looked <= alarm_at), None)
    return min(at_alarm, alarm_at) if at_alarm is not None else None
