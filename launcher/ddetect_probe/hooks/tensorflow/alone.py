"""Who this process is when no cluster says so: rank 0 of 1, once it is seen at work.

Enters: the first step, the first batch. Leaves: the role, and a strategy text that names none. Never here: a process
that another framework's hooks have made a rank already: it stays one.
"""

from __future__ import annotations

import json

from ddetect_probe import state
from ddetect_probe.hooks.tensorflow import tasks

NAME = "tensorflow"
_told = False


def tell_strategy(kind: str, replicas: int, workers: int, task: str, index: int) -> None:
    """Say how the job is distributed; the newest strategy holds."""
    global _told
    _told = True
    state.text(
        "strategy",
        json.dumps({"kind": kind, "replicas": replicas, "workers": workers, "task": task, "index": index}),
    )


def tell_task() -> None:
    """Say which task of a cluster this process is, if nobody has said more."""
    task = tasks.from_environment()
    if not _told:
        tell_strategy("", 1, 1, task.kind if task else "", task.number if task else 0)


def decide() -> None:
    """It trains with TensorFlow, and nobody has said that it is part of something bigger."""
    task = tasks.from_environment()
    if task is not None and task.rank < 0:
        state.undecided = False  # it belongs to parameter servers, which are not judged
        return
    state.decide_alone(NAME)
    tell_task()


def decide_by_data() -> None:
    """It loads with tf.data. Another framework that is there as well may train with that: then its step decides."""
    if state.first_framework() == NAME:
        decide()
