"""The exam as people read it. Pure.

Enters: results as dicts. Leaves: markdown, and a line per run. Never here: I/O, a figure that is not in the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Told = Mapping[str, Any]
NOTES = """\
Suspicions: folders that were written about a job that was well, and taken back; surest: the highest confidence that was
ever written of it. Seconds run from the moment at which the program says that it hangs: to the first folder that names
its rank (in brackets: 1.5 times its usual gap + 6 s, or 35 s where there is none yet), and to the alarm (in brackets:
the limit that `ddetect status` showed when it was named + 5 s; of a twin, that of the table)."""


def markdown(run: Told) -> str:
    """The tables of what there is, and how it was made."""
    of = {
        suite: [one for one in run["runs"] if one["suite"] == suite] for suite in ("healthy", "hang", "twin")
    }
    parts: list[str] = []
    if of["healthy"]:
        parts += [_healthy(of["healthy"]), ""]
    if of["hang"]:
        parts += [_hangs(of["hang"]), ""]
    if of["twin"]:
        parts += [_twins(of["twin"]), ""]
    return "\n".join([*parts, _made(run), ""])


def line(told: Told) -> str:
    """One run for the eye."""
    mark = "right" if told["right"] else "FAILED" if told["failed"] else "LEFT" if told["left"] else "WRONG"
    if told["suite"] == "healthy":
        what = f"{told['alarms']} alarms, {told['suspicions']} suspicions, surest {told['highest']:.2f}"
    else:
        what = f"suspected {_took(told, 'suspected')}, alarm {_took(told, 'alarm')} {told['situation']}"
        what += "" if told["rank_right"] else ", WRONG RANK" if told["alarm_s"] is not None else ""
        what += f", load {told['load']}" + (" REPEAT" if told["repeat"] else "")
    why = "" if told["right"] else f" | {(told['failed'] or told['left'] or told['says'])[:300]!r}"
    return f"{told['name']:<28} {told['minutes']:5.1f} min {mark:<6} {what}{why}"


def _healthy(told: list[Told]) -> str:
    quiet = sum(not one["alarms"] for one in told)
    rows = [
        f"**{len(told)} healthy programs: {len(told) - quiet} with an alarm, {_sum(told, 'suspicions')} suspicions.**",
        "",
        "| healthy | minutes | usual gap, s | alarms | suspicions | surest |",
        "|---|---|---|---|---|---|",
    ]
    for one in told:
        usual = f"{one['usual_s']:.0f}" if one["usual_s"] else "-"
        cells = [one["kind"], one["minutes"], usual, one["alarms"], one["suspicions"], _share(one["highest"])]
        rows.append(_row([*cells[:-1], f"{cells[-1]}{_but(one)}"]))
    return "\n".join(rows)


def _hangs(told: list[Told]) -> str:
    rows = [
        f"**{len(told)} hangs at the same paces: {_count(told, 'right')} right.**",
        "",
        "| hangs | usual gap, s | rank, line, cause | suspected, s | alarm, s | situation | load |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in told:
        usual = f"{one['usual_s']:.0f}" if one["usual_s"] else "-"
        again = " (repeated)" if one.get("repeated") else ""
        cells = [
            one["kind"], usual, _named(one), _took(one, "suspected"), _took(one, "alarm"), one["situation"],
            f"{one['load']}{again}{_but(one)}",
        ]  # fmt: skip
        rows.append(_row(cells))
    return "\n".join(rows)


def _twins(told: list[Told]) -> str:
    rows = [
        f"**{len(told)} twins that hang while something goes on: {_count(told, 'right')} alarms in time.**",
        "",
        "| hangs | what goes on | rank, line, cause | suspected, s | alarm, s | situation |",
        "|---|---|---|---|---|---|",
    ]
    for one in told:
        noise = one["noise"] or "itself"
        cells = [one["kind"], noise, _named(one), f"{_s(one['suspected_s'])}", _took(one, "alarm")]
        rows.append(_row([*cells, f"{one['situation']}{_but(one)}"]))
    return "\n".join(rows)


def _named(one: Told) -> str:
    """What is right of it."""
    parts = [(one["rank_right"], "rank"), (one["line_right"], "line"), (one["cause_right"], "cause")]
    wrong = [name for right, name in parts if not right]
    return "right" if not wrong else f"wrong: {', '.join(wrong)}"


def _but(one: Told) -> str:
    """What else there is to say of a run."""
    problems = [
        "failed" if one["failed"] else "",
        "left something behind" if one["left"] else "",
        f"{one['alarms']} alarms before" if one["alarms"] and one["suite"] != "healthy" else "",
    ]
    return "".join(f"; {problem}" for problem in problems if problem)


def _took(one: Told, what: str) -> str:
    within = one[f"{what}_within_s"]
    return f"{_s(one[f'{what}_s'])} ({f'{within:.0f}' if within is not None else 'not shown'})"


def _s(seconds: float | None) -> str:
    return f"{seconds:.1f}" if seconds is not None else "never"


def _share(confidence: float) -> str:
    return f"{confidence:.0%}" if confidence else "-"


def _sum(told: Iterable[Told], key: str) -> int:
    return sum(int(one[key]) for one in told)


def _count(told: list[Told], key: str) -> str:
    return f"{sum(bool(one[key]) for one in told)}/{len(told)}"


def _row(cells: list[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _made(run: Told) -> str:
    settings = "default settings" if run["patience_s"] is None else f"--patience {run['patience_s']:.0f}"
    if run["suite"] == "twins":
        settings = "--patience 30"
    shorter = "" if run["shorter"] == 1 else f", every duration divided by {run['shorter']:g}: a trial"
    return (
        f"Made by `{run['command']}` at commit {run['commit']} on {run['date']}, {run['machine']}, at most "
        f"{run['lanes']} jobs at a time, {run['minutes']:.0f} minutes, {settings}{shorter}."
    )
