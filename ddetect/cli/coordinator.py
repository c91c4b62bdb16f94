"""`ddetect coordinator`: gather beats and stacks of one job, and name what hangs.

Started by `ddetect launch` on one node; by hand it wants --listen and, beyond loopback, DDETECT_TOKEN.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from pathlib import Path

from ddetect_probe import rundir

from ddetect.errors import HostError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every flag has a DDETECT_* twin, for pods and for the launcher."""
    env = os.environ.get
    parser.add_argument(
        "--run-dir", type=Path, default=env("DDETECT_RUN_DIR"), help="the job's run directory"
    )
    parser.add_argument(
        "--listen", default=env("DDETECT_LISTEN", ""), help="HOST:PORT (default: a unix socket there)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(env("DDETECT_OUT", "ddetect-out")), help="incident folders"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=env("DDETECT_PATIENCE", "300"),
        help="seconds before an alarm (300)",
    )
    parser.add_argument(
        "--startup-patience",
        type=float,
        default=env("DDETECT_STARTUP_PATIENCE", "1800"),
        help="seconds before an alarm before the fifth step, while somebody runs (1800)",
    )
    parser.add_argument(
        "--note-after",
        type=float,
        default=env("DDETECT_NOTE_AFTER", "60"),
        help="seconds after which a suspicion is posted to --notify, marked as not an alarm (60)",
    )
    parser.add_argument(
        "--startup",
        type=float,
        default=env("DDETECT_STARTUP", "30"),
        help="seconds without motion before the first steps that make a suspicion (30)",
    )
    parser.add_argument(
        "--on-hang", default=env("DDETECT_ON_HANG", "report"), help="report, stop or exec:CMD"
    )
    parser.add_argument(
        "--notify", default=env("DDETECT_NOTIFY", ""), help="URL that gets a JSON POST on an alarm"
    )
    parser.add_argument("--signatures", default=env("DDETECT_SIGNATURES"), help="more stack signatures")
    parser.add_argument(
        "--events", type=Path, default=env("DDETECT_EVENTS") or None,
        help="add every event of the job to this file, suspected or not, to play them again",
    )  # fmt: skip
    parser.add_argument("--job", default=env("DDETECT_JOB", ""), help="the job's name")


def run(args: argparse.Namespace) -> int:
    """Serve until the job is over."""
    from ddetect.cli.signatures import read_patterns
    from ddetect.coordinator.act import parse_on_hang
    from ddetect.coordinator.incidents import Incidents
    from ddetect.coordinator.server import Coordinator, Options, check_listen
    from ddetect.coordinator.state import JobState
    from ddetect.errors import UsageError
    from ddetect.model import Settings

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if args.run_dir is None and not args.listen:
        raise UsageError(
            "coordinator needs --run-dir or --listen", hint="For example: --listen 127.0.0.1:29677"
        )
    token = os.environ.get("DDETECT_TOKEN") or None
    listen = args.listen or f"unix:{args.run_dir / rundir.COORDINATOR_SOCKET}"
    check_listen(listen, token)
    try:
        incidents = Incidents(args.out.absolute())
    except OSError as error:
        raise HostError(
            f"cannot write to {args.out}: {error.strerror or error}",
            hint="Choose another folder with --out DIR.",
        ) from error
    name = args.job or _job_name(args.run_dir)
    incidents.close_stale(name)
    settings = Settings(
        args.patience,
        startup_s=args.startup,
        signatures=read_patterns(args.signatures),
        startup_patience_s=args.startup_patience,
        note_after_s=args.note_after,
    )
    job = JobState(name, settings, first_number=incidents.next_number())
    options = Options(args.run_dir, listen, token, parse_on_hang(args.on_hang), args.notify, args.events)

    async def serve() -> None:
        await Coordinator(job, incidents, options).run()

    asyncio.run(serve())
    return 0


def _job_name(run_dir: Path | None) -> str:
    if run_dir is None:
        return "job"
    about = rundir.read_about(str(run_dir))
    return about.job if about is not None and about.job else run_dir.name
