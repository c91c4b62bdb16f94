"""`ddetect attach`: watch a job that was started without ddetect.

Enters: which processes. Leaves: reports on stdout, news on stderr, an exit code. Changes nothing in the job.
Never here: finding (ddetect.attach.find), watching (ddetect.attach.watch), judging (ddetect.correlate).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ddetect.attach.find import JobScan, Wanted
from ddetect.attach.once import look_and_judge
from ddetect.attach.watch import AttachLoop, Outlets, print_news, settings_for
from ddetect.cli.look import wants_color
from ddetect.coordinator.incidents import Incidents
from ddetect.errors import UsageError
from ddetect.model import Incident, Settings, Snapshot, Status
from ddetect.rankset import format_ranks
from ddetect.report.formats import JSON, REPORTS, TEXT, Report, Shown, named

DEFAULT_OUT = "ddetect-out"
DESCRIPTION = """\
Watch a running job that was started without ddetect, until it ends or you press ctrl-C. Ranks are found by their
environment (torchrun, TF_CONFIG, Open MPI, Slurm), and looked at from outside every few seconds (py-spy, /proc):
nothing in the job is changed."""
EPILOG = """\
examples:
  ddetect attach
  ddetect attach --match train.py --patience 120
  ddetect attach --pid 4711 --once

What counts as a stall: nobody counts steps in such a job, so looks are compared. While a stack shows another function,
bytes move, or children come and go, the job moves. Looks that are alike for 10 s make a suspicion; the alarm comes
after --patience seconds (sooner only for what contradicts progress by itself, like a stopped process; ten times as
late where nobody waits for another). A false alarm is worse than a late one. Without the probe ddetect does
not see which collective a rank is in: verdicts are less sure, and more often `undecided`. `ddetect launch` sees more.

exit codes with --once: 0 the job moves, 3 it is stuck, 4 undecided. Else: 3 if an alarm is open at the end (4 if it
names nobody), 0 if none is. 2: there is nothing to attach to."""


def add_arguments(
    parser: argparse.ArgumentParser,
    environ: Mapping[str, str] = os.environ,
    reports: Sequence[Report] = REPORTS,
) -> None:
    """Options of `ddetect attach`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pid",
        metavar="PID",
        type=_pid,
        nargs="+",
        default=[],
        help="a rank (it stands for its job), a launcher, or training programs without ranks, in their order (a "
        "notebook's kernel, MirroredStrategy, workers whose script sets TF_CONFIG)",
    )
    which.add_argument(
        "--all", action="store_true", help="all ranks on this host, if they are of one job (the default)"
    )
    which.add_argument(
        "--match", metavar="REGEX", type=_pattern, default="", help="ranks whose command line matches"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=environ.get("DDETECT_OUT") or None,
        help=f"write incident folders here (DDETECT_OUT; default {DEFAULT_OUT}; with --once nothing is written unless "
        "you say where)",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=environ.get("DDETECT_PATIENCE") or "300",
        help="time without motion before causes that only time can prove raise an alarm (DDETECT_PATIENCE; "
        "default %(default)s)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--format",
        choices=[report.name for report in reports],
        default=TEXT.name,
        help="how to print verdicts (default %(default)s)",
    )
    how.add_argument(
        "--json", dest="format", action="store_const", const=JSON.name, help="print verdicts as JSON"
    )
    parser.add_argument("--once", action="store_true", help="look three times, print the verdict, and leave")


def run(args: argparse.Namespace, reports: Sequence[Report] = REPORTS) -> int:
    """Find the job; look once or watch."""
    scan = JobScan(Wanted(tuple(args.pid), args.match))
    ranks = scan.choose()
    for note in scan.notes:
        print_news(note)
    settings, report = settings_for(args.patience), named(args.format, reports)
    if args.once:
        return _once(scan, settings, _incidents(args.out, reports) if args.out else None, report)
    incidents = _incidents(args.out or DEFAULT_OUT, reports)
    print_news(
        f"watching rank{'s' if len(ranks) > 1 else ''} {format_ranks([found.rank for found in ranks])} of job "
        f"{scan.name} from outside, without a probe; ctrl-C leaves it as it is"
    )
    outlets = Outlets(
        lambda incident, snapshot, folder: _print(report, incident, snapshot, folder), print_news
    )
    return AttachLoop(scan, settings, incidents, outlets).run()


def _once(scan: JobScan, settings: Settings, incidents: Incidents | None, report: Report) -> int:
    incident, snapshot = look_and_judge(scan, settings)
    folder = None
    if incidents is not None and incident.verdict.status is not Status.HEALTHY:
        incident = replace(incident, number=incidents.next_number())
        folder = incidents.write(incident, snapshot)
        incident = incidents.numbered(incident)
    _print(report, incident, snapshot, folder)
    return {Status.HEALTHY: 0, Status.UNDECIDED: 4}.get(incident.verdict.status, 3)


def _incidents(out: str, reports: Sequence[Report]) -> Incidents:
    try:
        return Incidents(Path(out), reports)
    except OSError as error:
        raise UsageError(
            f"cannot write to {out}: {error.strerror}", hint="Choose another --out DIR."
        ) from error


def _print(report: Report, incident: Incident, snapshot: Snapshot, folder: Path | None) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    place = str(folder) if folder is not None else None
    sys.stdout.write(report(incident, snapshot, Shown(wants_color(sys.stdout), width, place)))
    sys.stdout.flush()


def _pid(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a process id")
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
