"""What TF_CONFIG says: who takes part in a TensorFlow job, and who of them this process is. Text in, Cluster out; pure.

Chief and workers train, and are the ranks in that order; an evaluator is in none of their collectives and comes after
them. Parameter servers are seen, and have no rank. Also read by the agent and by attach, from a process's environment.
Never here: resolving names. Text that is no TF_CONFIG is None and never an error: TensorFlow will say what is wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from ddetect_launcher.mpi import Membership
from ddetect_launcher.rendezvous import parse_address

UNKNOWN = -1
LEADERS = ("chief", "master")  # TensorFlow 1 said master
_LOCAL = "localhost"


@dataclass(frozen=True)
class Cluster:
    """The addresses of those who take part, and which task this process is ("", -1: it was not said)."""

    leaders: tuple[str, ...] = ()  # one, or none: then worker 0 leads
    workers: tuple[str, ...] = ()
    evaluators: tuple[str, ...] = ()  # seldom listed: they are not part of the training
    servers: tuple[str, ...] = ()
    kind: str = ""
    index: int = UNKNOWN

    @property
    def training(self) -> tuple[str, ...]:
        """Addresses in the order of ranks."""
        return (*self.leaders, *self.workers)

    @property
    def rank(self) -> int:
        """Of this process; UNKNOWN for a parameter server and where the task was not said."""
        if self.kind == "evaluator" and self.index >= 0:
            return len(self.training) + self.index
        if self.kind in LEADERS and 0 <= self.index < len(self.leaders):
            return self.index
        if self.kind == "worker" and 0 <= self.index < len(self.workers):
            return len(self.leaders) + self.index
        return UNKNOWN

    @property
    def task(self) -> str:
        """How people call this task: "chief", "worker 1"; empty where it was not said."""
        if self.rank < 0:
            return ""
        return "chief" if self.kind in LEADERS else f"{self.kind} {self.index}"

    @property
    def listed(self) -> tuple[str, ...]:
        """Addresses of all that have a rank, in that order."""
        return (*self.training, *self.evaluators)

    @property
    def world(self) -> int:
        """How many ranks there are, as far as it matters here: nobody waits for an evaluator, only one counts them."""
        return max(len(self.listed if self.kind == "evaluator" else self.training), self.rank + 1)

    @property
    def own_host(self) -> str:
        """Where this process runs: its task's address says so, whatever the host calls itself. Empty: not said."""
        return host_of(self.listed[self.rank]) if 0 <= self.rank < len(self.listed) else ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each once, the leader's first."""
        return tuple(dict.fromkeys(map(host_of, self.listed)))

    @property
    def local_world(self) -> int:
        """How many ranks this process's host should have; UNKNOWN where it cannot be told from the addresses."""
        here = self.own_host or (_LOCAL if self.hosts == (_LOCAL,) else "")
        if not here or self.rank < 0:
            return UNKNOWN
        listed = self.listed if self.kind == "evaluator" else self.training
        unlisted = self.world - len(listed)  # an evaluator counts itself, and those before it
        return sum(host_of(address) == here for address in listed) + unlisted

    @property
    def name(self) -> str:
        """Equal for all tasks of a cluster. Without evaluators: some are given a list with them, others without."""
        listed = {"chief": self.leaders, "worker": self.workers, "ps": self.servers}
        if not any(listed.values()):
            listed = {"evaluator": self.evaluators}
        text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
        return f"tf-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def parse_tf_config(text: str | None) -> Cluster | None:
    """The cluster; None when there is none in the text."""
    try:
        told = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    cluster = told.get("cluster") if isinstance(told, dict) else None
    if not isinstance(cluster, dict):
        return None
    listed = {str(kind): _addresses(entry) for kind, entry in cluster.items()}
    if not any(listed.values()):
        return None
    task = told.get("task")
    task = task if isinstance(task, dict) else {}
    return Cluster(
        leaders=next((listed[kind] for kind in LEADERS if listed.get(kind)), ()),
        workers=listed.get("worker", ()),
        evaluators=listed.get("evaluator", ()),
        servers=listed.get("ps", ()),
        kind=str(task.get("type", "")),
        index=_number(task.get("index")),
    )


def membership(cluster: Cluster, owned_address: Callable[[str], str | None]) -> Membership | None:
    """This launcher as one of those that run a cluster's tasks; None when there is only one task."""
    tasks = max(len(cluster.listed), cluster.world)
    if tasks < 2:
        return None
    own = cluster.own_host
    others = [host for host in cluster.hosts if host != own and host != _LOCAL]
    # A host may be listed by a name and by a number. Most often the first other one ends the search.
    here = all(owned_address(host) is not None for host in others)
    leader = cluster.hosts[0] if cluster.hosts else None
    address = parse_address(cluster.training[0]) if cluster.training else None
    return Membership(
        cluster.name,
        tasks=tasks,
        nodes=1 if here else len(cluster.hosts),
        host=leader,
        node_rank=0 if own and own == leader else None,
        port=address[1] if address else None,
    )


def host_of(address: str) -> str:
    """The host of HOST:PORT; every name of loopback is the same one."""
    parsed = parse_address(address, default_port=1)
    host = parsed[0] if parsed else address
    return _LOCAL if host == "::1" or host.startswith("127.") else host


def _addresses(entry: object) -> tuple[str, ...]:
    """A list, or a dict by index (as TensorFlow takes both)."""
    if isinstance(entry, dict):
        entry = [entry[key] for key in sorted(entry, key=lambda key: (_number(key), str(key)))]
    return tuple(map(str, entry)) if isinstance(entry, list) else ()


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() else UNKNOWN
