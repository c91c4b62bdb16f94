"""`ddetect launch`: flags in, Options for ddetect_launcher out; returns the job's own exit code.

Imports nothing of ddetect but its errors and a text: a broken grpc or numpy must not keep the job from running.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping

from ddetect_launcher.launch import launch
from ddetect_launcher.options import Options
from ddetect_launcher.rendezvous import parse_address

from ddetect import table_of_limits
from ddetect.errors import UsageError

USAGE = "ddetect launch [options] [--] PROGRAM [ARGS...]"
DESCRIPTION = """\
Run a training job as it would run alone, watched by ddetect: same output, same signals, same exit code
(128+N when signal N ended it). Everything behind PROGRAM is the job's and left as it is."""
EPILOG = f"""\
examples:
  ddetect launch torchrun --nproc-per-node 8 train.py
  ddetect launch --out /scratch/ddetect --on-hang stop python train.py --epochs 3
  srun ddetect launch python train.py
  TF_CONFIG='{{"cluster": ..., "task": ...}}' ddetect launch python train.py   # TensorFlow: the same for each task
  DDETECT_TOKEN=secret ddetect launch torchrun --nnodes 2 --node-rank 0 --master-addr node-0 train.py

When standing still is an alarm:
{table_of_limits.as_text()}

Each flag can be given as an environment variable. ddetect never refuses a job but for a wrong flag (exit code 2) and
a program that cannot be run (127 not found, 126 not executable)."""


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str] = os.environ) -> None:
    """Declare the flags; their defaults come from DDETECT_* variables."""
    parser.usage, parser.description, parser.epilog = USAGE, DESCRIPTION, EPILOG
    parser.add_argument(
        "--out",
        metavar="DIR",
        default=environ.get("DDETECT_OUT") or "ddetect-out",
        help="write incident folders here (DDETECT_OUT; default %(default)s)",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=environ.get("DDETECT_PATIENCE") or "300",
        help="time without motion before causes that only time can prove raise an alarm: the table below "
        "(DDETECT_PATIENCE; default %(default)s)",
    )
    parser.add_argument(
        "--startup-patience",
        metavar="SECONDS",
        type=_seconds,
        default=environ.get("DDETECT_STARTUP_PATIENCE") or "1800",
        help="the same before the fifth step while somebody runs: compilers and data sets take their time "
        "(DDETECT_STARTUP_PATIENCE; default %(default)s)",
    )
    parser.add_argument(
        "--on-hang",
        metavar="ACTION",
        type=_on_hang,
        default=environ.get("DDETECT_ON_HANG") or "report",
        help="on a confirmed hang: report, stop (end the job), or exec:CMD (DDETECT_ON_HANG; default %(default)s)",
    )
    parser.add_argument(
        "--notify",
        metavar="URL",
        type=_url,
        default=environ.get("DDETECT_NOTIFY") or None,
        help="post each alarm as JSON to this address; Slack-compatible hooks take it (DDETECT_NOTIFY)",
    )
    parser.add_argument(
        "--note-after",
        metavar="SECONDS",
        type=_seconds,
        default=environ.get("DDETECT_NOTE_AFTER") or "60",
        help="post a suspicion there that has lasted so long, marked as not an alarm (DDETECT_NOTE_AFTER; "
        "default %(default)s)",
    )
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        type=_address,
        default=environ.get("DDETECT_COORDINATOR") or None,
        help="where the nodes of the job meet; the node that owns HOST serves (DDETECT_COORDINATOR; default: found "
        "from the address that torchrun, accelerate, TF_CONFIG or Slurm has)",
    )
    parser.add_argument(
        "--signatures",
        metavar="FILE",
        default=environ.get("DDETECT_SIGNATURES") or None,
        help="more stack signatures, as JSON (DDETECT_SIGNATURES)",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        default=environ.get("DDETECT_QUIET", "") not in ("", "0"),
        help="no status line; alarms are printed all the same (DDETECT_QUIET)",
    )
    parser.add_argument("command", metavar="PROGRAM ...", nargs=argparse.REMAINDER, help="the job")


def run(args: argparse.Namespace) -> int:
    """Launch the job; returns its exit code."""
    command = list(args.command)
    if command[:1] == ["--"]:
        del command[0]
    if not command or not command[0]:
        raise UsageError(
            "There is no program to launch.",
            "Give the job's command: ddetect launch torchrun --nproc-per-node 8 train.py, or python train.py",
        )
    options = Options(
        out=args.out,
        patience_s=args.patience,
        startup_patience_s=args.startup_patience,
        note_after_s=args.note_after,
        on_hang=args.on_hang,
        notify=args.notify,
        coordinator=args.coordinator,
        signatures=args.signatures,
        quiet=args.quiet,
    )
    return launch(command, options)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _on_hang(text: str) -> str:
    if text in ("report", "stop") or (text.startswith("exec:") and text[5:].strip()):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is none of report, stop, exec:CMD")


def _url(text: str) -> str:
    if text.startswith(("http://", "https://")):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} does not start with http:// or https://")


def _address(text: str) -> str:
    if parse_address(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return text
