"""`ddetect diagnose`: judge saved snapshots again, with no job at hand.

Enters: .ddsnap files or incident folders. Leaves: the verdict on stdout and nothing else, an exit code.
Never here: rules (they are in ddetect.correlate), clocks: a file judged next year gives the same verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from ddetect.cli.look import wants_color
from ddetect.correlate.judge import judge
from ddetect.errors import BadSnapshot
from ddetect.frameworks.patterns import read_patterns
from ddetect.model import Incident, Snapshot, Stage, Status, Verdict
from ddetect.report.json_ import format_verdict_json, verdict_json
from ddetect.report.text import format_report
from ddetect.wire.file import read_snapshot

SNAPSHOT_NAME = "snapshot.ddsnap"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ddetect diagnose`."""
    parser.epilog = "example:\n  ddetect diagnose ddetect-out/incident-001"
    parser.add_argument(
        "files",
        metavar="FILE.ddsnap",
        nargs="+",
        type=Path,
        help="a snapshot, or an incident folder that holds one",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (a list for several files)")
    parser.add_argument(
        "--signatures",
        metavar="FILE",
        default=os.environ.get("DDETECT_SIGNATURES"),
        help="know the frames of your own framework too: a JSON file like ddetect/frameworks/general.json",
    )


def run(args: argparse.Namespace) -> int:
    """Read all, judge all, then print: a bad file spoils no half-printed answer."""
    snapshots = [read_snapshot(snapshot_path(path)) for path in args.files]
    added = read_patterns(args.signatures)
    if added:  # else those that it was judged with
        snapshots = [
            replace(snapshot, settings=replace(snapshot.settings, signatures=added)) for snapshot in snapshots
        ]
    incidents = [replay(snapshot, judge(snapshot)) for snapshot in snapshots]
    if not args.json:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        color = wants_color(sys.stdout)
        reports = [format_report(incident, color=color, width=width) for incident in incidents]
        sys.stdout.write("\n".join(_headed(args.files, reports)))
    elif len(incidents) == 1:
        sys.stdout.write(format_verdict_json(incidents[0]))
    else:
        sys.stdout.write(json.dumps([verdict_json(one) for one in incidents], indent=1) + "\n")
    return exit_code([incident.verdict for incident in incidents])


def snapshot_path(path: Path) -> Path:
    """The file to read: an incident folder stands for the snapshot in it."""
    if not path.is_dir():
        return path
    inside = path / SNAPSHOT_NAME
    if not inside.exists():
        raise BadSnapshot(
            f"there is no {SNAPSHOT_NAME} in {path}",
            hint="Give an incident folder (ddetect-out/incident-NNN) or a .ddsnap file.",
        )
    return inside


def replay(snapshot: Snapshot, verdict: Verdict) -> Incident:
    """The incident as it stood when the snapshot was taken; history and closing are not in a snapshot."""
    taken = snapshot.taken_at_unix_ns
    confirmed = snapshot.stage is Stage.CONFIRMED
    return Incident(
        number=0,
        stage=snapshot.stage,
        verdict=verdict,
        job=snapshot.job,
        attempt=snapshot.attempt,
        world_size=snapshot.world_size,
        stalled_for_s=snapshot.stalled_for_s,
        last_progress_unix_ns=max(0, taken - round(snapshot.stalled_for_s * 1e9)) if taken else 0,
        judged_at_unix_ns=taken,
        confirmed_at_unix_ns=taken if confirmed else None,
    )


def exit_code(verdicts: list[Verdict]) -> int:
    """0 all healthy, 4 if the worst is undecided, 3 if anything is wrong."""
    statuses = {verdict.status for verdict in verdicts}
    if statuses - {Status.HEALTHY, Status.UNDECIDED}:
        return 3
    return 4 if Status.UNDECIDED in statuses else 0


def _headed(paths: list[Path], reports: list[str]) -> list[str]:
    if len(reports) == 1:
        return reports
    return [f"== {path} ==\n{report}" for path, report in zip(paths, reports, strict=True)]
