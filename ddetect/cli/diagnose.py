"""`ddetect diagnose`: judge saved snapshots again, with no job at hand.

Enters: .ddsnap files or incident folders. Leaves: the verdict on stdout and nothing else, an exit code.
Never here: rules (they are in ddetect.correlate), clocks: a file judged next year gives the same verdict.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ddetect.cli.look import wants_color
from ddetect.cli.signatures import read_patterns
from ddetect.correlate.judge import judge
from ddetect.errors import BadSnapshot
from ddetect.model import Incident, Snapshot, Stage, Status, Verdict
from ddetect.report.formats import JSON, REPORTS, TEXT, Report, Shown, named
from ddetect.wire.file import read_snapshot

SNAPSHOT_NAME = "snapshot.ddsnap"


def add_arguments(parser: argparse.ArgumentParser, reports: Sequence[Report] = REPORTS) -> None:
    """Options of `ddetect diagnose`."""
    parser.epilog = "example:\n  ddetect diagnose ddetect-out/incident-001"
    parser.add_argument(
        "files",
        metavar="FILE.ddsnap",
        nargs="+",
        type=Path,
        help="a snapshot, or an incident folder that holds one",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--format",
        choices=[report.name for report in reports],
        default=TEXT.name,
        help="how to print it (default %(default)s)",
    )
    which.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const=JSON.name,
        help="print JSON (a list for several files)",
    )
    parser.add_argument(
        "--signatures",
        metavar="FILE",
        default=os.environ.get("DDETECT_SIGNATURES"),
        help="know the frames of your own framework too: a JSON file like ddetect/frameworks/general.json",
    )


def run(args: argparse.Namespace, reports: Sequence[Report] = REPORTS) -> int:
    """Read all, judge all, then print: a bad file spoils no half-printed answer."""
    snapshots = [read_snapshot(snapshot_path(path)) for path in args.files]
    added = read_patterns(args.signatures)
    if added:  # else those that it was judged with
        snapshots = [
            replace(snapshot, settings=replace(snapshot.settings, signatures=added)) for snapshot in snapshots
        ]
    incidents = [replay(snapshot, judge(snapshot)) for snapshot in snapshots]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    report, shown = named(args.format, reports), Shown(wants_color(sys.stdout), width)
    texts = [
        report(incident, snapshot, shown) for incident, snapshot in zip(incidents, snapshots, strict=True)
    ]
    sys.stdout.write(texts[0] if len(texts) == 1 else report.join(texts, [str(path) for path in args.files]))
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
        members=snapshot.members,
    )


def exit_code(verdicts: list[Verdict]) -> int:
    """0 all healthy, 4 if the worst is undecided, 3 if anything is wrong."""
    statuses = {verdict.status for verdict in verdicts}
    if statuses - {Status.HEALTHY, Status.UNDECIDED}:
        return 3
    return 4 if Status.UNDECIDED in statuses else 0
