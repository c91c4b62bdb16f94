"""The comparison as people read it: one line per tool, and JSON with every run.

Enters: scores as dicts. Leaves: markdown and JSON text. Never here: I/O.
"""

from __future__ import annotations

import json
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
    named = [one["seconds_to_name"] for one in hanging if one["seconds_to_name"] is not None]
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
        "healthy": len(healthy),
        "healthy_could_run": sum(not one["outcome"]["cannot"] for one in healthy),
        "false_alarms": sum(one["false_alarm"] for one in healthy),
    }


def table_markdown(command: str, tools: Mapping[str, Tool], told: list[Told]) -> str:
    """One line per tool, then how it was made."""
    rows = [
        "| tool | alarm | right rank | right cause | both right | seconds, median (worst) | evidence kept | "
        "false alarms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, tool in tools.items():
        s = summary(one for one in told if one["tool"] == name)
        of = s["hanging"]
        alarm = "has none: asked" if s["asked"] and not s["alarms"] else f"{s['alarms']}/{of}"
        seconds = f"{s['median_s']} ({s['worst_s']})" if s["median_s"] is not None else "-"
        share = f"{s['right_both'] / of:.0%} ({s['right_both']}/{of})" if of else "-"
        false = f"{s['false_alarms']}/{s['healthy_could_run']}" if s["healthy_could_run"] else "-"
        rows.append(
            f"| {tool.name} {tool.version()} | {alarm} | {s['right_culprit']}/{of} | {s['right_cause']}/{of} | "
            f"{share} | {seconds} | {s['evidence']}/{of} | {false} |"
        )
    settings = [f"- {tool.name} {tool.version()}: {tool.settings}." for tool in tools.values()]
    return "\n".join([*rows, "", f"Made by `{command}`, {machine()}. Settings:", *settings, ""])


def results_json(command: str, tools: Mapping[str, Tool], told: list[Told]) -> str:
    """Everything, for whoever wants to count again."""
    return (
        json.dumps(
            {
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
            },
            indent=1,
        )
        + "\n"
    )


def machine() -> str:
    """What it ran on, without naming it."""
    return f"{os.cpu_count()} cores, no GPU, Python {platform.python_version()}"
