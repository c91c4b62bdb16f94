"""The comparison as people read it: one line per tool; and as programs do, with every run.

Enters: scores as dicts. Leaves: results and their markdown. Never here: I/O.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from tests.hangbench.tools.base import Tool

Told = dict[str, Any]


def summary(told: Iterable[Told]) -> dict[str, Any]:
    """The figures of one tool."""
    every = list(told)
    hanging = [one for one in every if not one["healthy"]]
    healthy = [one for one in every if one["healthy"]]
    ran = [one for one in hanging if not one["outcome"]["cannot"]]
    timed = [one for one in hanging if one["alarm"] and one["seconds_to_name"] is not None]
    named = [one["seconds_to_name"] for one in timed if one["learned"]]
    starting = [one["seconds_to_name"] for one in timed if not one["learned"]]
    proven = [one["seconds_to_alarm"] for one in timed if one["learned"] and one["structural"]]
    return {
        "hanging": len(hanging),
        "could_run": len(ran),
        "alarms": sum(one["alarm"] for one in hanging),
        "right_culprit": sum(one["right_culprit"] for one in hanging),
        "right_cause": sum(one["right_cause"] for one in hanging),
        "right_both": sum(one["right"] for one in hanging),
        "evidence": sum(bool(one["outcome"]["evidence"]) for one in hanging),
        "asked": any(one["outcome"]["asked"] for one in hanging),
        "median_s": round(statistics.median(named), 1) if named else None,
        "worst_s": round(max(named), 1) if named else None,
        "starting_worst_s": round(max(starting), 1) if starting else None,
        "structural_alarm_worst_s": round(max(proven), 1) if proven else None,
        "healthy": len(healthy),
        "healthy_could_run": sum(not one["outcome"]["cannot"] for one in healthy),
        "false_alarms": sum(one["false_alarm"] for one in healthy),
    }


def results(command: str, tools: Mapping[str, Tool], told: list[Told]) -> dict[str, Any]:
    """Everything about one run of the bench, for whoever wants to count again."""
    return {
        "command": command,
        "machine": machine(),
        "tools": {
            name: {
                "name": tool.name,
                "version": tool.version(),
                "settings": tool.settings,
                **summary(one for one in told if one["tool"] == name),
            }
            for name, tool in tools.items()
        },
        "runs": told,
    }


def table_markdown(run: Mapping[str, Any]) -> str:
    """One line per tool, then how it was made."""
    rows = [
        "| tool | alarm | right rank | right cause | both right | seconds, median (worst) | evidence kept | "
        "false alarms |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(tool) for tool in run["tools"].values()),
    ]
    settings = [f"- {tool['name']} {tool['version']}: {tool['settings']}." for tool in run["tools"].values()]
    return "\n".join([*rows, "", f"Made by `{run['command']}`, {run['machine']}. Settings:", *settings, ""])


def seeds_markdown(run: Mapping[str, Any]) -> str:
    """One line per tool and seed: how often it was right over the whole suite, and how fast."""
    rows = [
        "| tool | seed | both right | culprit on disk: median, worst | alarm by structure: worst | before the first "
        "step: worst | false alarms |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tool in run["tools"].items():
        mine = [one for one in run["runs"] if one["tool"] == name]
        for seed in dict.fromkeys(one["seed"] for one in mine):
            s = summary(one for one in mine if one["seed"] == seed)
            share = s["right_both"] / s["hanging"]
            rows.append(
                f"| {tool['name']} | {seed} | {share:.1%} ({s['right_both']}/{s['hanging']}) | "
                f"{s['median_s']} s, {s['worst_s']} s | {s['structural_alarm_worst_s']} s | "
                f"{s['starting_worst_s']} s | {s['false_alarms']}/{s['healthy']} |"
            )
    return "\n".join([*rows, "", f"Made by `{run['command']}`, {run['machine']}.", ""])


def _row(tool: Mapping[str, Any]) -> str:
    of = tool["hanging"]
    alarm = f"{tool['alarms']}/{of}" + (" when asked" if tool["asked"] else "")
    seconds = f"{tool['median_s']} ({tool['worst_s']})" if tool["median_s"] is not None else "-"
    both = f"{tool['right_both'] / of:.0%} ({tool['right_both']}/{of})" if of else "-"
    false = f"{tool['false_alarms']}/{tool['healthy_could_run']}" if tool["healthy_could_run"] else "-"
    return (
        f"| {tool['name']} {tool['version']} | {alarm} | {tool['right_culprit']}/{of} | "
        f"{tool['right_cause']}/{of} | {both} | {seconds} | {tool['evidence']}/{of} | {false} |"
    )


def machine() -> str:
    """What it ran on, without naming it."""
    return f"{os.cpu_count()} cores, no GPU, Python {platform.python_version()}"
