"""`ddetect agent`: watch the ranks of one node and tell the coordinator.

Enters: the command line. Leaves: an exit code. `ddetect launch` starts it by itself; people start it in a
sidecar.
Never here: anything but reading options.
"""

from __future__ import annotations

import argparse
import os

from ddetect.errors import HostError, UsageError

HELP = "watch the ranks of one node (started by `ddetect launch`; start it yourself in a sidecar)"
EXAMPLE = "example: ddetect agent --run-dir /ddetect --coordinator ddetect-coordinator:29677"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.epilog = EXAMPLE
    parser.add_argument(
        "--run-dir",
        default=os.environ.get("DDETECT_RUN_DIR"),
        metavar="DIR",
        help="the run directory of the job on this node (DDETECT_RUN_DIR)",
    )
    parser.add_argument(
        "--coordinator",
        default=os.environ.get("DDETECT_COORDINATOR"),
        metavar="HOST:PORT",
        help="where the coordinator listens (DDETECT_COORDINATOR; default: what it wrote into the run directory)",
    )
    parser.add_argument(
        "--node",
        default=os.environ.get("DDETECT_NODE", ""),
        metavar="NAME",
        help="what to call this node (DDETECT_NODE; default: the host name)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the agent until the job is over."""
    if not args.run_dir:
        raise UsageError("ddetect agent needs a run directory", "Give --run-dir DIR or set DDETECT_RUN_DIR.")
    if not os.path.isdir(args.run_dir):
        raise HostError(
            f"there is no run directory {args.run_dir}",
            "It is made by `ddetect launch`, or by the pod's volume.",
        )
    from ddetect.agent.run import AgentSettings, run_agent

    return run_agent(
        AgentSettings(
            run_dir=args.run_dir,
            coordinator=args.coordinator,
            token=os.environ.get("DDETECT_TOKEN") or None,
            node=args.node,
        )
    )
