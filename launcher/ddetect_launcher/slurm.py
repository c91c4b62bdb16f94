"""What Slurm tells a launcher that runs under srun. Environment in, Membership out; pure.

Inside a batch script without srun there is one launcher per command, so nothing is shared: two commands of one
script are two jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddetect_launcher.mpi import Membership


def parse_slurm(environ: Mapping[str, str]) -> Membership | None:
    """None when srun did not start us, or started us alone."""
    job, step = environ.get("SLURM_JOB_ID", ""), environ.get("SLURM_STEP_ID", "")
    tasks = _number(environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS"))
    if not job or not step.isdigit() or "SLURM_PROCID" not in environ or tasks is None or tasks < 2:
        return None
    nodes = _number(environ.get("SLURM_STEP_NUM_NODES") or environ.get("SLURM_NNODES")) or 1
    listed = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    host = first_host(listed) or environ.get("SLURM_LAUNCH_NODE_IPADDR")
    return Membership(f"slurm-{job}.{step}", tasks, nodes, host, _number(environ.get("SLURM_NODEID")))


def first_host(listed: str) -> str | None:
    """The first name of a Slurm host list: "gpu[003-005,9],login1" -> "gpu003"."""
    match = re.match(r"([^,\[]+)(?:\[([0-9]+)[^\]]*\]([^,\[]*))?", listed)
    return None if match is None else match[1] + (match[2] or "") + (match[3] or "")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
