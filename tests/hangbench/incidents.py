"""What `ddetect` left in verdict.json, as the bench counts it. Pure.

Enters: verdicts as read from disk. Leaves: an `Outcome`. Never here: ddetect's own clock, but as a check of ours, and
where it makes ddetect look slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddetect.model.tables import rank_of
from ddetect.rankset import format_ranks, parse_members
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.outcome import Outcome

CLOCKS_DIFFER_S = 2.0


def culprits_of(verdict: dict[str, Any]) -> tuple[int, ...]:
    """The ranks that it names."""
    return tuple(sorted({culprit["rank"] for culprit in verdict["culprits"]}))


def lanes_of(verdict: dict[str, Any]) -> tuple[int | None, ...]:
    """The replicas that it names, None for a whole process."""
    return tuple(culprit.get("lane") for culprit in verdict["culprits"])


def lines_of(verdict: dict[str, Any]) -> tuple[tuple[str, str, int], ...]:
    """Where the culprits are: file without its folder, function, line."""
    places = [culprit["where"] for culprit in verdict["culprits"] if culprit.get("where")]
    return tuple((Path(where["file"]).name, where["function"], where["line"]) for where in places)


def left_open_by(verdict: dict[str, Any]) -> tuple[int, ...]:
    """The ranks of which one may be at fault, where it does not say which."""
    members = parse_members((verdict.get("open") or {}).get("members", ""))
    return tuple(sorted({rank_of(member) for member in members}))


def at_end(
    verdict: dict[str, Any], over: Sequence[dict[str, Any]]
) -> tuple[str, str | None, tuple[int, ...]]:
    """What the same incident says when all is over."""
    last = next((one for one in over if one["incident"] == verdict["incident"]), verdict)
    return last["status"], last["cause"], culprits_of(last)


def named_at(verdict: dict[str, Any]) -> float:
    """Since when the answer that stands in it was on disk: the last time that another answer was replaced."""
    answer = (verdict["status"], verdict["cause"], format_ranks(culprits_of(verdict)))
    changed = [
        earlier["at_unix_ns"]
        for earlier in verdict["history"]
        if (earlier["status"], earlier["cause"], earlier["culprits"]) != answer
    ]
    return float(max(changed, default=verdict["judged_at_unix_ns"])) / 1e9


def is_alarm(verdict: dict[str, Any]) -> bool:
    """Whether it was confirmed."""
    return bool(verdict.get("confirmed_at_unix_ns"))


def alarm_at(verdict: dict[str, Any]) -> float:
    """When it was confirmed."""
    return float(verdict["confirmed_at_unix_ns"]) / 1e9


def other_attempts(scenario: Scenario, params: Params, alarms: list[dict[str, Any]]) -> str:
    """What is wrong with the alarms up to the one that counts: one for each attempt, each with its own truth."""
    told = [(one["attempt"], one["cause"], culprits_of(one)) for one in alarms]
    truth = [(i, cause.value, ranks(params)) for i, (cause, ranks) in enumerate(scenario.earlier)]
    last = told[-1][0] if told else None
    if told[:-1] == truth and last == len(truth):
        return ""
    return f"alarms of attempt, cause, ranks {told}, but before attempt {len(truth)} there should be {truth}"


def clock_doubt(verdict: dict[str, Any], last_move: float | None) -> str:
    """The bench's clock must not see progress where ddetect saw none: that would make it look faster."""
    own = verdict["last_progress_unix_ns"] / 1e9
    if last_move is None or last_move - own <= CLOCKS_DIFFER_S:
        return ""
    return f"the bench's clock saw the job move {last_move - own:.1f} s after the last progress that ddetect counted"


def outcome_of(verdict: dict[str, Any], last_move: float | None, suspicions: int) -> Outcome:
    """An alarm of `ddetect launch`, or of `ddetect attach` that watched."""
    doubt = clock_doubt(verdict, last_move)
    return Outcome(
        alarm_at=alarm_at(verdict),
        named_at=named_at(verdict),
        last_progress=verdict["last_progress_unix_ns"] / 1e9 if doubt else last_move,
        culprits=culprits_of(verdict),
        status=verdict["status"],
        cause=verdict["cause"],
        lanes=lanes_of(verdict),
        lines=lines_of(verdict),
        left_open=left_open_by(verdict),
        suspicions=suspicions,
        says=f"({verdict['confidence']:.2f}) {verdict['summary']}",
        doubt=doubt,
    )
