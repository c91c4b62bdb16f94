"""Decide how this launcher watches: which job it is, who serves, where. Command line and environment in, Plan out.

Pure: what only the world knows (a fresh name, which addresses this host owns) comes in as arguments.
Never here: files, sockets, processes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ddetect_launcher.mpi import Membership, parse_open_mpi
from ddetect_launcher.rendezvous import Rendezvous, parse_address, parse_rendezvous
from ddetect_launcher.slurm import parse_slurm
from ddetect_launcher.tf_config import membership, parse_tf_config

PORT_STEP = 177  # from the rendezvous port to the coordinator's
NAME_LENGTH = 32  # a unix socket path has 107 characters, and the run directory is most of it

OwnedAddress = Callable[[str], "str | None"]
"""The numeric address a host name stands for when it is one of this machine's, else None."""


@dataclass(frozen=True)
class Plan:
    """What to start on this node."""

    job: str  # DDETECT_JOB
    run_name: str  # folder name of the run directory
    shared: bool  # other launchers of this node use the same run directory
    serves: bool  # start a coordinator here
    listen: str | None  # its HOST:PORT; None is a unix socket in the run directory
    dial: str | None  # HOST:PORT the agent dials; None: the one in the run directory
    notes: tuple[str, ...] = ()  # sentences for the user
    refusal: str = ""  # why nobody should watch this job


@dataclass(frozen=True)
class _Meeting:
    """The address of the coordinator of a job with several nodes."""

    host: str
    port: int
    node_rank: int | None
    given: bool  # by --coordinator: then it may be nobody of ours


def make_plan(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    coordinator: str | None,
    fresh_name: str,
    owned_address: OwnedAddress,
) -> Plan:
    """Read the command line, the scheduler's environment and --coordinator; never fails, at worst watches one node."""
    rendezvous = parse_rendezvous(argv, environ)
    member = parse_slurm(environ) or parse_open_mpi(environ)
    # Some clouds set TF_CONFIG for every job, also for torch's.
    of_torch = rendezvous.launcher or "RANK" in environ
    cluster = None if of_torch else parse_tf_config(environ.get("TF_CONFIG"))
    if cluster is not None:
        member = membership(cluster, owned_address) or member
    refusal = _SERVERS if cluster is not None and cluster.servers else ""
    # Inside a watched job DDETECT_JOB is the outer job's, not a wish of the user.
    wished = "" if environ.get("DDETECT_RUN_DIR") else environ.get("DDETECT_JOB", "")
    meeting, notes = _meeting(rendezvous, member, environ, coordinator)
    if meeting is not None and not is_loopback(meeting.host) and not environ.get("DDETECT_TOKEN"):
        notes = (
            f"this job has several nodes, and ddetect opens no port beyond this one without a secret: set "
            f"DDETECT_TOKEN to the same text on every node to have ranks compared across nodes (at {join(meeting)}); "
            f"until then each node watches its own ranks only.",
        )
        meeting = None
    if member is not None:
        job = wished or member.job
    elif meeting is not None:
        job = wished or f"{meeting.host}-{meeting.port}"
    else:
        job = wished or fresh_name
    job = safe_name(job)
    # The launchers of one job on one node meet in one run directory. A job with a single launcher has one of its own,
    # so that two jobs never meet, even under one wished name.
    shared = member is not None or meeting is not None
    run_name = job if shared or job == fresh_name else safe_name(f"{job}-{fresh_name}")
    if meeting is None:
        return Plan(job, run_name, shared, True, None, None, notes, refusal)
    owned = owned_address(meeting.host)
    serves = owned is not None or (not meeting.given and meeting.node_rank == 0)
    listen = None
    if serves:
        # A host's own name often stands for 127.0.1.1 in its /etc/hosts: there no other node would reach us.
        everywhere = not is_loopback(meeting.host) and (owned is None or is_loopback(owned))
        host = ("[::]" if owned and ":" in owned else "0.0.0.0") if everywhere else owned or meeting.host
        listen = f"{_bracketed(host)}:{meeting.port}"
    return Plan(job, run_name, shared, serves, listen, join(meeting), notes, refusal)


def is_loopback(host: str) -> bool:
    """Whether a name or address can only mean this machine."""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def join(meeting: _Meeting) -> str:
    """HOST:PORT of a meeting point."""
    return f"{_bracketed(meeting.host)}:{meeting.port}"


def safe_name(text: str) -> str:
    """A short folder name, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".") or "job"
    if plain == text and len(plain) <= NAME_LENGTH:
        return plain
    return f"{plain[: NAME_LENGTH - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _meeting(
    rendezvous: Rendezvous, member: Membership | None, environ: Mapping[str, str], coordinator: str | None
) -> tuple[_Meeting | None, tuple[str, ...]]:
    node_rank = rendezvous.node_rank
    if node_rank is None and member is not None:
        node_rank = member.node_rank
    if coordinator:
        address = parse_address(coordinator)
        if address is None:
            return None, (f"--coordinator {coordinator} is not HOST:PORT; ddetect watches this node alone.",)
        return _Meeting(*address, node_rank, given=True), ()
    if rendezvous.nodes > 1:
        if rendezvous.host and rendezvous.port and rendezvous.host_is_node:
            return _Meeting(rendezvous.host, _next_to(rendezvous.port), node_rank, given=False), ()
        return None, (_UNKNOWN,)
    if member is not None and member.nodes > 1 and member.host and member.port:
        return _Meeting(member.host, _next_to(member.port), node_rank, given=False), ()
    if member is not None and member.nodes > 1:
        host = environ.get("MASTER_ADDR") or member.host
        if not host:
            return None, (_UNKNOWN,)
        port = environ.get("MASTER_PORT", "")
        # Without a rendezvous port every node computes the same one from the job's name.
        base = int(port) if port.isdigit() and 0 < int(port) < 65536 else _port_of(member.job)
        return _Meeting(host, _next_to(base), node_rank, given=False), ()
    return None, ()


_UNKNOWN = (
    "this job has several nodes, and its command line does not tell which of them could serve: give "
    "--coordinator HOST:PORT (the same on every node) to have ranks compared across nodes."
)


_SERVERS = "its TF_CONFIG lists parameter servers, and ParameterServerStrategy is not judged yet"


def _next_to(port: int) -> int:
    return port + PORT_STEP if port + PORT_STEP < 65536 else port - PORT_STEP


def _port_of(job: str) -> int:
    return 20000 + int(hashlib.sha256(job.encode()).hexdigest()[:8], 16) % 10000


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
