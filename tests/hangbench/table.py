"""The comparison as people read it: one line per tool; and as programs do, with every run.

Enters: scores as dicts. Leaves: results and their markdown. Never here: I/O.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from tests.hangbench.tools.tool import Tool

Told = dict[str, Any]
NOTES = """\
Right rank: exactly the struck ranks are named (nobody, where nobody is struck); `undecided` is no alarm. Seconds run
from the last movement of the job by the bench's own clock, or from the question for a tool that is asked, over all
alarms about jobs that had begun to step, right or wrong: `named` until the final answer could be read, `alarm` until
the tool raised its voice. Evidence: the tool left files with stacks or the state of each rank (a log, if it holds a
stack that is said to be a rank's). False alarms: of the healthy jobs that it watched; who is asked when a job stands
still raises none. Suspicions: written down for healthy jobs and taken back without an alarm. Failed: runs in which the
tool broke, or the healthy job that it watched did not end well."""


def summary(told: Iterable[Told]) -> dict[str, Any]:
    """The figures of one tool."""
    every = list(told)
    hanging = [one for one in every if not one["healthy"]]
    healthy = [one for one in every if one["healthy"]]
    alarms = [one for one in hanging if one["alarm"]]
    stepping = [one for one in alarms if one["learned"]]
    return {
        "hanging": len(hanging),
        "could_run": sum(not one["outcome"]["cannot"] for one in hanging),
        "alarms": len(alarms),
        "right_culprit": sum(one["right_culprit"] for one in hanging),
        "right_cause": sum(one["right_cause"] for one in hanging),
        "right_both": sum(one["right"] for one in hanging),
        "evidence": sum(bool(one["outcome"]["evidence"]) for one in hanging),
        "asked": any(one["outcome"]["asked"] for one in hanging),
        "named_s": _seconds("seconds_to_name", stepping),
        "alarm_s": _seconds("seconds_to_alarm", stepping),
        "starting_named_s": _seconds("seconds_to_name", [one for one in alarms if not one["learned"]]),
        "structural_alarm_s": _seconds("seconds_to_alarm", [one for one in stepping if one["structural"]]),
        "healthy": len(healthy),
        "healthy_watched": sum(
            not one["outcome"]["cannot"] and not one["outcome"]["asked"] for one in healthy
        ),
        "false_alarms": sum(one["false_alarm"] for one in healthy),
        "suspicions": sum(one["outcome"]["suspicions"] for one in healthy),
        "failed": sum(bool(one["outcome"]["failed"]) for one in every),
        "lines": [one["right_line"] for one in hanging if one.get("right_line") is not None],
        "at_end": {
            by: [one["right_at_end"] for one in hanging if one["outcome"].get("ended_by") == by]
            for by in sorted({one["outcome"].get("ended_by") or "" for one in hanging} - {""})
        },
        "left": sum(bool(one["outcome"].get("left")) for one in every),
        "doubted": sum(bool(one["outcome"]["doubt"]) for one in every),
    }


def results(made_with: Mapping[str, Any], tools: Mapping[str, Tool], told: list[Told]) -> dict[str, Any]:
    """Everything about one run of the bench, for whoever wants to count again."""
    return {
        **made_with,
        "tools": {
            name: {
                "name": tool.name,
                "version": tool.version(),
                "settings": tool.settings,
                "tells_cause": tool.tells_cause,
                "suspects": tool.suspects,
                **summary(one for one in told if one["tool"] == name),
            }
            for name, tool in tools.items()
        },
        "runs": told,
    }


def table_markdown(run: Mapping[str, Any]) -> str:
    """One line per tool, then how it was made."""
    rows = [
        "| tool | could run | alarm | right rank | right cause | both right | named, s: median (worst) | "
        "alarm, s: median (worst) | evidence | false alarms | suspicions | failed |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(tool) for tool in run["tools"].values()),
    ]
    return "\n".join([*rows, "", NOTES, "", *_made(run), ""])


def seeds_markdown(run: Mapping[str, Any]) -> str:
    """One line per tool and seed: how often it was right over the whole suite, and how fast."""
    rows = [
        "| tool | seed | both right | named: median (worst), s | alarm: median (worst), s | alarm by structure, s | "
        "named before the first step, s | false alarms | suspicions | failed |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, tool in run["tools"].items():
        mine = [one for one in run["runs"] if one["tool"] == name]
        for seed in dict.fromkeys(one["seed"] for one in mine):
            s = summary(one for one in mine if one["seed"] == seed)
            cells = [
                tool["name"], seed, _share(s), *map(_times, (s["named_s"], s["alarm_s"], s["structural_alarm_s"])),
                _times(s["starting_named_s"]), _of(s["false_alarms"], s["healthy_watched"]), s["suspicions"],
                s["failed"],
            ]  # fmt: skip
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*rows, "", *_ends(run), *_made(run), ""])


def ends_markdown(run: Mapping[str, Any]) -> str:
    """The ends alone, and what each cause became after each of them."""
    ends = list(dict.fromkeys(one["outcome"]["ended_by"] or "none" for one in run["runs"]))
    rows = [f"| hang | {' | '.join(ends)} |", f"|---|{'---|' * len(ends)}"]
    for name in dict.fromkeys(one["scenario"] for one in run["runs"]):
        mine = [one for one in run["runs"] if one["scenario"] == name]
        cells = ["-"] * len(ends)
        for one in mine:
            place = ends.index(one["outcome"]["ended_by"] or "none")
            if cells[place] in (
                "-",
                "right",
            ):  # one that no timeout ended was ended by SIGTERM, as another was
                cells[place] = "right" if one["right"] else _wrong(one)
        rows.append(f"| {name}: {mine[0]['truth']} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", *_ends(run), *_made(run), ""])


def _wrong(one: Told) -> str:
    outcome = one["outcome"]
    if outcome["left"]:
        return "left something behind"
    if outcome["failed"] or outcome["beside"]:
        return "failed" if outcome["failed"] else f"beside it: {outcome['beside']}"
    return f"{outcome['status']}/{outcome['cause']} {list(outcome['culprits'] or ())}"


def _ends(run: Mapping[str, Any]) -> list[str]:
    """By whom the jobs were ended, and what was on disk afterwards; nothing of a run that did not count it."""
    counted = [one for one in run["runs"] if one["outcome"].get("ended_by") and "right_alive" in one]
    if not counted:
        return []
    rows = [
        "| ended by | runs | right while it hung | right on disk after the end | left behind |",
        "|---|---|---|---|---|",
    ]
    for by in sorted({one["outcome"]["ended_by"] for one in counted}):
        mine = [one for one in counted if one["outcome"]["ended_by"] == by]
        alive = [one["right_alive"] for one in mine if one["right_alive"] is not None]
        at_end = _of(sum(bool(one["right_at_end"]) for one in mine), len(mine))
        left = sum(bool(one["outcome"]["left"]) for one in mine)
        rows.append(f"| {by} | {len(mine)} | {_of(sum(alive), len(alive))} | {at_end} | {left} |")
    return [*rows, ""]


def tensorflow_markdown(run: Mapping[str, Any]) -> str:
    """As `seeds_markdown`, and beside it: the line, and what was on disk after the job was ended, and by whom."""
    rows = [
        "| tool | seed | both right | right line | right on disk after the end, by | named: median (worst), s | "
        "alarm: median (worst), s | named before the first step, s | false alarms | suspicions | failed |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, tool in run["tools"].items():
        mine = [one for one in run["runs"] if one["tool"] == name]
        for seed in [*dict.fromkeys(one["seed"] for one in mine), ""]:
            s = summary(one for one in mine if seed in ("", one["seed"]))
            ends = "; ".join(
                f"{by}: {_of(sum(map(bool, told)), len(told))}" for by, told in s["at_end"].items()
            )
            cells = [
                tool["name"], seed or "all", _share(s), _of(sum(s["lines"]), len(s["lines"])), ends or "-",
                *map(_times, (s["named_s"], s["alarm_s"], s["starting_named_s"])),
                _of(s["false_alarms"], s["healthy_watched"]), s["suspicions"], s["failed"],
            ]  # fmt: skip
            rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*rows, "", *_ends(run), *_made(run), ""])


def _row(tool: Mapping[str, Any]) -> str:
    of, causes = tool["hanging"], tool["tells_cause"]
    same = tool["named_s"] == tool["alarm_s"]
    cells = [
        f"{tool['name']} {tool['version']}",
        _of(tool["could_run"], of),
        _of(tool["alarms"], of) + (" when asked" if tool["asked"] else ""),
        _of(tool["right_culprit"], of),
        _of(tool["right_cause"], of) if causes else "-",
        _share(tool) if causes else "-",
        _times(tool["named_s"]),
        "same" if same and tool["alarm_s"] else _times(tool["alarm_s"]),
        _of(tool["evidence"], of),
        _of(tool["false_alarms"], tool["healthy_watched"]),
        tool["suspicions"] if tool["suspects"] else "-",
        tool["failed"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _made(run: Mapping[str, Any]) -> list[str]:
    doubted = sum(tool["doubted"] for tool in run["tools"].values())
    doubts = (
        " In {} of the runs the bench's clock is doubted: seconds count from ddetect's own, which is earlier."
    )
    at_a_time = f"{run['lanes']} job{'s' if run['lanes'] > 1 else ''} at a time"
    if "`, `" in run["command"]:
        at_a_time += " or more"
    made = (
        f"Made by `{run['command']}` at commit {run['commit']}, {run['machine']}, {at_a_time}."
        f"{doubts.format(doubted) if doubted else ''} Settings:"
    )
    settings = [f"- {tool['name']} {tool['version']}: {tool['settings']}." for tool in run["tools"].values()]
    return [made, "", *settings]


def _seconds(key: str, told: list[Told]) -> dict[str, float] | None:
    """Median and worst of so many runs; None if there was none."""
    seconds = [one[key] for one in told if one[key] is not None]
    if not seconds:
        return None
    return {
        "median": round(statistics.median(seconds), 1),
        "worst": round(max(seconds), 1),
        "of": len(seconds),
    }


def _times(seconds: Mapping[str, float] | None) -> str:
    return f"{seconds['median']} ({seconds['worst']} of {seconds['of']})" if seconds else "-"


def _of(count: int, of: int) -> str:
    return f"{count}/{of}" if of else "-"


def _share(tool: Mapping[str, Any]) -> str:
    right, of = tool["right_both"], tool["hanging"]
    return f"{right / of:.0%} ({right}/{of})" if of else "-"
