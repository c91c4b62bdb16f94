"""What Open MPI tells a launcher that runs under mpirun. Environment in, Membership out; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Membership:
    """This launcher is one of several that a scheduler started for one job."""

    job: str  # equal on all of them, different for the next job
    tasks: int
    nodes: int  # 2 stands for "more than one" where the scheduler does not tell
    host: str | None  # of the node that should serve, where known
    node_rank: int | None
    port: int | None = None  # on that host: one that the job itself meets at


def parse_open_mpi(environ: Mapping[str, str]) -> Membership | None:
    """None when mpirun did not start us, or started us alone."""
    tasks = _number(environ.get("OMPI_COMM_WORLD_SIZE"))
    job = next((environ[key] for key in _JOB_KEYS if environ.get(key)), "")
    if tasks is None or tasks < 2 or not job:
        return None
    here = _number(environ.get("OMPI_COMM_WORLD_LOCAL_SIZE"))
    nodes = 1 if here is None or here >= tasks else 2
    return Membership(f"mpi-{job}", tasks, nodes, _mpirun_host(environ), None)


# Open MPI 5 names its namespace; 4 numbers the job, and PMIX_NAMESPACE holds that number.
_JOB_KEYS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_ess_jobid")


def _mpirun_host(environ: Mapping[str, str]) -> str | None:
    """The address mpirun listens on ("123.0;tcp://10.0.0.1,10.1.0.1:4321"): as a rule the first node."""
    for key in ("OMPI_MCA_orte_hnp_uri", "PRTE_MCA_prte_hnp_uri"):
        match = re.search(r"tcp://([0-9.]+)", environ.get(key, ""))
        if match:
            return match[1]
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None
