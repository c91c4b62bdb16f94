"""What a tool did about one run of one scenario, and what that is worth.

Enters: a scenario's truth and a tool's `Outcome`. Leaves: a `Score`. Never here: I/O, torch, mercy for our own tool:
a culprit is right if exactly the struck ranks are named, a cause if status and cause are those of the truth.
`undecided` is no alarm about a hang, and right only where that is the truth: nobody is named, and the struck rank is
among those left open. About a healthy job every voice that is raised is a false one, but for what it may say.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ddetect.model import Proof, Status
from ddetect.scenarios.catalogue import Params, Scenario


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one tool said about one run. Times are unix seconds."""

    alarm_at: float | None = None  # it raised its voice by itself, or (`asked`) answered when it was asked
    named_at: float | None = (
        None  # from then on the culprits and the cause that it ended with were to be read
    )
    last_progress: float | None = None  # by the bench's own clock, not by any tool; `asked`: the question
    culprits: tuple[int, ...] | None = None  # None: it names nobody
    status: str | None = None
    cause: str | None = None  # in ddetect's words, where the tool's own words mean the same
    asked: bool = (
        False  # the tool does not watch: the bench asked it once the job stood still (healthy: never)
    )
    suspicions: int = 0  # incidents that were opened and never became an alarm
    evidence: str = ""  # the files that it left for a person to read
    lanes: tuple[int | None, ...] = ()  # of the culprits: the replica, where one is named
    lines: tuple[tuple[str, str, int], ...] = ()  # of the culprits: file, function, line
    left_open: tuple[int, ...] = ()  # `undecided`: the ranks of which it may be one
    ended_by: str = ""  # how the job was ended; all above is then what was on disk afterwards
    alive: tuple[str, str | None, tuple[int, ...]] | None = None  # status, cause, culprits while it hung
    beside: str = ""  # what else was on disk afterwards, and is not true
    left: str = ""  # processes and run directories that outlived the end
    says: str = ""  # its own words, one line
    cannot: str = ""  # why this tool cannot run this scenario, if so
    failed: str = ""  # what broke: the tool, its adapter, or the job that it watched
    doubt: str = ""  # why the bench does not trust its own measurement of this run, if so


@dataclass(frozen=True, slots=True)
class Score:
    """One cell of the table."""

    tool: str
    scenario: str
    seed: str
    params: dict[str, Any]
    healthy: bool
    learned: bool  # the job had found its rhythm before it was struck
    structural: bool  # the evidence contradicts progress by itself, without waiting
    truth: str
    alarm: bool
    seconds_to_name: float | None
    seconds_to_alarm: float | None
    right_culprit: bool
    right_cause: bool
    # Both, and the replica where the truth has one, and nothing else is said; or, for a healthy job, silence and no
    # folder. And nothing failed, and nothing is left behind.
    right: bool
    right_line: bool | None  # None: the truth has no line
    right_at_end: bool | None  # what stood on disk after the job was ended; None: nobody looked
    right_alive: (
        bool | None
    )  # what was said while it hung; None: nobody looked, or nothing was before it ended
    false_alarm: bool
    outcome: dict[str, Any]


def score(tool: str, seed: str, scenario: Scenario, params: Params, outcome: Outcome) -> Score:
    """Hold one outcome against the truth."""
    healthy = scenario.status is Status.HEALTHY
    cause = scenario.cause.value if scenario.cause else None
    culprits = tuple(sorted(scenario.culprits(params)))
    spoke = outcome.alarm_at is not None
    undecided = scenario.status is Status.UNDECIDED
    excused = healthy and outcome.cause in {one.value for one in scenario.may_say}
    alarm = spoke and not excused and (healthy or outcome.status != Status.UNDECIDED.value)
    # On disk after the end a suspicion counts too: torch's timeout may come before ddetect is sure.
    answered = outcome.status is not None if undecided or outcome.ended_by else alarm and not healthy
    right_culprit = answered and _names_right(scenario, params, outcome)
    right_cause = answered and outcome.status in scenario.statuses and outcome.cause == cause
    if healthy:
        told_truth = not alarm and (excused or not outcome.suspicions)
    else:
        told_truth = right_culprit and right_cause and not outcome.beside
    wanted = [(status, cause, culprits) for status in scenario.statuses]
    return Score(
        tool=tool,
        scenario=scenario.name,
        seed=seed,
        params=asdict(params),
        healthy=healthy,
        learned=not scenario.before_first_step,
        structural=scenario.proof is Proof.STRUCTURAL,
        truth=f"{scenario.status.value}/{cause} {list(culprits)}",
        alarm=alarm,
        seconds_to_name=_seconds(outcome.named_at, outcome.last_progress),
        seconds_to_alarm=_seconds(outcome.alarm_at, outcome.last_progress),
        right_culprit=right_culprit,
        right_cause=right_cause,
        right=told_truth and not (outcome.failed or outcome.cannot or outcome.left),
        right_line=_line_right(scenario, outcome) if answered and scenario.function else None,
        right_at_end=told_truth if outcome.ended_by else None,
        right_alive=outcome.alive in wanted if outcome.alive else None,
        false_alarm=healthy and alarm,
        outcome=asdict(outcome),
    )


def _names_right(scenario: Scenario, params: Params, outcome: Outcome) -> bool:
    """Exactly the struck ranks, and their replica where the truth has one; of `undecided`, whom it leaves open."""
    if (outcome.culprits or ()) != tuple(sorted(scenario.culprits(params))):
        return False
    if scenario.lane is not None and outcome.lanes != (scenario.lane(params),):
        return False
    return scenario.left_open is None or set(scenario.left_open(params)) <= set(outcome.left_open)


def _line_right(scenario: Scenario, outcome: Outcome) -> bool:
    """Whether a culprit is at one of the marked lines."""
    return any(
        (file, function.rpartition(".")[2]) == (scenario.path.name, scenario.function)
        and line in scenario.lines
        for file, function, line in outcome.lines
    )


def _seconds(then: float | None, since: float | None) -> float | None:
    return None if then is None or since is None else round(then - since, 2)
