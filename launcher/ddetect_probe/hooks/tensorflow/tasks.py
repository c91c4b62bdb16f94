"""Which rank a task of a TensorFlow cluster is.

Enters: a cluster (how many tasks each job has), a task's type and index, from TF_CONFIG or from TensorFlow's own
server definition. Leaves: `Task`. The chief is rank 0, workers follow in order, evaluators come after them and count
only where they run, for nobody waits for one; parameter servers are no ranks. Never here: TensorFlow, the page.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, NamedTuple, Optional

CHIEFS = ("chief", "master")  # TensorFlow still takes the old word


class Task(NamedTuple):
    """One process of a cluster; `rank` is -1 for a parameter server, `workers` are those that train together."""

    kind: str
    number: int
    rank: int
    world: int
    workers: int


def place(sizes: Dict[str, int], kind: str, index: int) -> Task:
    """The task's place among the ranks; `sizes` is how many tasks each job of the cluster has."""
    chiefs = next((sizes[name] for name in CHIEFS if sizes.get(name)), 0)
    workers = chiefs + sizes.get("worker", 0)
    evaluators = sizes.get("evaluator", 0)
    if sizes.get("ps", 0):
        return Task(
            kind, index, -1, -1, workers
        )  # each worker of parameter servers goes its own way: none is judged
    if kind == "evaluator" and index >= 0:
        # Its own TF_CONFIG is often the only one that knows of it.
        return Task(kind, index, workers + index, workers + max(evaluators, index + 1), workers)
    if kind in CHIEFS and 0 <= index < chiefs:
        return Task("chief", index, index, workers, workers)
    if kind == "worker" and 0 <= index < sizes.get("worker", 0):
        return Task(kind, index, chiefs + index, workers, workers)
    return Task(kind, index, -1, -1, workers)


def from_environment() -> Optional[Task]:
    """What TF_CONFIG says, None if it is not there or says nothing of a cluster."""
    try:
        told = json.loads(os.environ.get("TF_CONFIG") or "{}")
        sizes = {str(job): len(addresses) for job, addresses in told["cluster"].items()}
        task = told["task"]
        return place(sizes, str(task["type"]), int(task["index"])) if any(sizes.values()) else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def from_server(definition: Any) -> Task:
    """What the definition of TensorFlow's own server says (a ServerDef)."""
    sizes = {job.name: len(job.tasks) for job in definition.cluster.job}
    return place(sizes, definition.job_name, definition.task_index)
