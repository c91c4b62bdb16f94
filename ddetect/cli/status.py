"""`ddetect status`: ask the coordinator of a job how every rank is.

Enters: options, or the run directories of this user. Leaves: the state on stdout, an exit code.
Never here: judging, starting anything.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from ddetect.cli.rundirs import RunningJob, read_job, read_jobs
from ddetect.client import StatusView, read_status
from ddetect.errors import NetworkError, UsageError
from ddetect.model import Phase
from ddetect.report.outlook import outlook_words
from ddetect.report.status import PAUSED, fold_rows, format_rate, format_status_table, format_table
from ddetect.report.words import clean, format_duration, name_members

EXIT_BY_STATE = {"suspected": 3, "confirmed": 3, "blind": 4}
"""A state that is not here is a job that is well as far as anyone can see."""


_COMMAND_SHOWN = 90  # characters of a command in a list of jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ddetect status`."""
    parser.epilog = "example:\n  ddetect status --job night-run"
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        default=os.environ.get("DDETECT_COORDINATOR"),
        help="ask this coordinator; with DDETECT_TOKEN set as the job has it",
    )
    which.add_argument("--run-dir", metavar="DIR", type=Path, help="ask the job that has this run directory")
    which.add_argument("--job", metavar="ID", help="ask this job of yours on this host")
    parser.add_argument("--json", action="store_true", help="print JSON with one entry per rank")


def run(args: argparse.Namespace) -> int:
    """Ask once and print what was said."""
    view = read_status(find_target(args), os.environ.get("DDETECT_TOKEN"))
    sys.stdout.write(format_view_json(view) if args.json else format_view(view))
    if view.verdict_status == "undecided" and view.state != "paused":
        return 4
    return EXIT_BY_STATE.get(view.state, 0)


def find_target(args: argparse.Namespace) -> str:
    """The address to ask: the one given, or that of the only job there is."""
    if args.run_dir is not None:
        job = read_job(args.run_dir)
        if job is None:
            raise UsageError(
                f"{args.run_dir} is not a run directory of ddetect",
                hint="Leave --run-dir out to see the jobs of this host.",
            )
        return _address(job)
    if args.job is None and args.coordinator:
        return str(args.coordinator)
    jobs = read_jobs(os.environ)
    if args.job is not None:
        return _address(_choose(args.job, jobs))
    if len(jobs) > 1:
        raise UsageError(
            f"{len(jobs)} jobs of yours run on this host:\n{_list(jobs)}",
            hint=f"Say which: ddetect status --job {jobs[0].job}",
        )
    if not jobs:
        raise NetworkError(
            "no job of yours runs under ddetect on this host",
            hint="Start one: ddetect launch torchrun --nproc-per-node 8 train.py, or python train.py\n"
            "Or ask another host: ddetect status --coordinator HOST:PORT",
        )
    return _address(jobs[0])


def _choose(wanted: str, jobs: tuple[RunningJob, ...]) -> RunningJob:
    named = [job for job in jobs if job.job == wanted] or [job for job in jobs if job.job.startswith(wanted)]
    if len(named) == 1:
        return named[0]
    there = f"There are:\n{_list(jobs)}" if jobs else "No job of yours runs under ddetect here."
    raise UsageError(f"{len(named) or 'no'} job{'s' * (len(named) > 1)} called {wanted!r} here", hint=there)


def _address(job: RunningJob) -> str:
    if not job.coordinator:
        raise NetworkError(
            f"the coordinator of job {job.job} does not listen yet, or has failed",
            hint=f"Try again in a second; then read {job.run_dir / 'coordinator.log'}.",
        )
    return job.coordinator


def _list(jobs: tuple[RunningJob, ...]) -> str:
    now = time.time()
    rows = [
        (
            f"  {job.job}",
            f"{format_duration(now - job.started_unix)} old",
            clean(job.command)[:_COMMAND_SHOWN],
        )
        for job in jobs
    ]
    return format_table(rows).rstrip("\n")


def format_view(view: StatusView) -> str:
    """State first, then the open incident, then what is not seen, then the ranks."""
    lines = [_headline(view)]
    if view.summary:
        lines.append(clean(view.summary))
    if view.noticed:
        lines.append(f"{clean(view.noticed)}.")
    if view.outlook is not None:
        told = view.outlook
        lines.append(outlook_words(told.situation, told.after_s, told.due_in_s, clean(told.because)))
    if view.incident:
        lines.append(f"Evidence: {clean(view.incident)}")
    lines += [
        f"Node {clean(node.name)} is lost: nothing heard for {format_duration(node.heard_s_ago)}."
        for node in view.nodes
        if not node.connected
    ]
    missing = view.world_size - len(set(view.roster.rank.tolist()))
    if view.world_size > 0 and missing > 0:
        lines.append(f"{missing} of {view.world_size} ranks are not seen.")
    unprobed = int((view.beats.has_page == 0).sum())
    if unprobed:
        lines.append(f"Ranks without the probe, of which only the process is seen: {unprobed}.")
    blind = view.roster.rank[view.beats.blind > 0].tolist()
    if blind:
        lines.append(
            f"The probe does not see all of {name_members(blind)}: hooks are off, or groups left out."
        )
    table = format_status_table(fold_rows(view.roster, view.beats))
    return "\n".join(lines) + "\n" + (f"\n{table}" if table else "")


def _headline(view: StatusView) -> str:
    step = int(view.beats.step.max()) if len(view.beats) else 0
    world = f"{view.world_size} ranks" if view.world_size > 0 else f"{len(view.roster)} ranks"
    parts = [f"Job {clean(view.job) or 'without a name'}: {clean(view.state)}", world]
    if view.attempt > 0:
        parts.append(f"attempt {view.attempt}")
    if step > 0:
        parts.append(f"step {step}")
    if view.state in ("suspected", "confirmed"):
        parts.append(f"no progress for {format_duration(view.stalled_for_s)}")
    elif view.state == "paused":
        parts.append(PAUSED)
    elif view.steps_per_s > 0:
        parts.append(format_rate(view.steps_per_s))
    return ", ".join(parts) + "."


def format_view_json(view: StatusView) -> str:
    """The same for programs: one entry per lane of a rank, nothing folded."""
    said = {
        "schema": 1,
        "job": view.job,
        "attempt": view.attempt,
        "world_size": view.world_size,
        "state": view.state,
        "steps_per_s": _number(view.steps_per_s),
        "stalled_for_s": _number(view.stalled_for_s),
        "incident": view.incident or None,
        "summary": view.summary or None,
        "noticed": view.noticed or None,
        "alarm": None
        if view.outlook is None
        else {
            "situation": view.outlook.situation,
            "after_s": _number(view.outlook.after_s),
            "due_in_s": _number(view.outlook.due_in_s),
            "because": view.outlook.because,
        },
        "nodes": [
            {"name": n.name, "connected": n.connected, "heard_s_ago": _number(n.heard_s_ago)}
            for n in view.nodes
        ],
        "ranks": [_rank(view, row) for row in range(len(view.roster))],
    }
    return json.dumps(said, indent=1, allow_nan=False) + "\n"


def _rank(view: StatusView, row: int) -> dict[str, Any]:
    roster, beats = view.roster, view.beats
    node, state = int(roster.node[row]), int(beats.state[row])
    known = bool(beats.has_page[row])
    phase = int(beats.phase[row])
    return {
        "rank": int(roster.rank[row]),
        "lane": int(roster.lane[row]),
        "host": roster.nodes[node] if 0 <= node < len(roster.nodes) else None,
        "pid": int(roster.pid[row]),
        "step": int(beats.step[row]) if known else None,
        "step_age_s": _number(float(beats.step_age_s[row])),
        "batch": int(beats.batch[row]) if known else None,
        "collectives": int(beats.collectives[row]),
        "phase": Phase(phase).name.lower() if known and phase in Phase._value2member_map_ else None,
        "phase_age_s": _number(float(beats.phase_age_s[row])) if known else None,
        "activity_age_s": _number(float(beats.activity_age_s[row])),
        "tick_age_s": _number(float(beats.tick_age_s[row])),
        "process_state": chr(state) if state > 0 else None,
        "has_probe": known,
        "blind_spots": int(beats.blind[row]),
    }


def _number(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
