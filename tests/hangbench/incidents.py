"""What `ddetect` left in verdict.json, as the bench counts it. Pure.

Enters: verdicts as read from disk. Leaves: an `Outcome`. Never here: ddetect's own clock, but as a check of ours, and
where it makes ddetect look slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ddetect.model.tables import rank_of
from ddetect.rankset import parse_members
from ddetect.scenarios.catalogue import Params, Scenario
from tests.hangbench.outcome import Outcome
from tests.hangbench.sightings import answer_of

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


def last_of(verdict: dict[str, Any], over: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same incident when all is over; empty if it is not there any more."""
    return next((one for one in over if one["incident"] == verdict["incident"]), {})


def beside(scenario: Scenario, params: Params, final: dict[str, Any], over: Sequence[dict[str, Any]]) -> str:
    """What other folders say that is not true: whoever comes later reads them all.

    An attempt before the last has its own truth; a restart may meet the same hang again.
    """
    cause = scenario.cause.value if scenario.cause else None
    truths = {(status, cause, tuple(sorted(scenario.culprits(params)))) for status in scenario.statuses}
    earlier = {(cause.value, tuple(sorted(ranks(params)))) for cause, ranks in scenario.earlier}
    others = [answer_of(one) for one in over if one["incident"] != final.get("incident")]
    false = [one for one in others if one not in truths and one[1:] not in earlier]
    return "; ".join(f"{status}/{cause} {list(ranks)}" for status, cause, ranks in false)


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


def outcome_of(verdict: dict[str, Any], last_move: float | None, **more: Any) -> Outcome:
    """What an incident of `ddetect launch` says, or of `ddetect attach` that watched; `more`: what the bench saw."""
    if not verdict:  # it was taken back
        return Outcome(**more)
    doubt = clock_doubt(verdict, last_move)
    return Outcome(
        alarm_at=alarm_at(verdict) if is_alarm(verdict) else None,
        last_progress=verdict["last_progress_unix_ns"] / 1e9 if doubt else last_move,
        culprits=culprits_of(verdict),
        status=verdict["status"],
        cause=verdict["cause"],
        lanes=lanes_of(verdict),
        lines=lines_of(verdict),
        left_open=left_open_by(verdict),
        says=f"({verdict['confidence']:.2f}) {verdict['summary']}",
        doubt=doubt,
        **more,
    )
