"""What a process trains with, told from outside: by the libraries that it has mapped.

Enters: a pid. Leaves: the name of a framework, empty while it has loaded none; whether it is one of several TensorFlow
tasks. Never here: judging.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection

from ddetect.host.proc import read_environ, read_stat

TORCH, TENSORFLOW = "torch", "tensorflow"
_LIBRARIES = {
    TORCH: re.compile(rb"/libtorch_(?:cpu|python)\.so"),
    TENSORFLOW: re.compile(rb"/libtensorflow_framework\.so|/_pywrap_tensorflow_internal\.so"),
}
_RUNS_TENSORFLOW = "tf_Compute"
"""What TensorFlow calls the threads it computes with: imported alone (TensorBoard does) it has none."""
_SERVES = "grpcpp_sync_ser"
"""The thread of a gRPC server in C++: a worker of a cluster has one, MirroredStrategy has none (TensorFlow 2.21)."""


def parse_libraries(maps: bytes) -> frozenset[str]:
    """The frameworks in the text of /proc/PID/maps."""
    return frozenset(name for name, pattern in _LIBRARIES.items() if pattern.search(maps))


def which(mapped: Collection[str], environ: Collection[str], threads: Collection[str]) -> str:
    """The one that it trains with: of two that are loaded, the one whose launcher or threads speak."""
    if len(mapped) < 2:
        return next(iter(mapped), "")
    if "RANK" in environ:
        return TORCH
    return TENSORFLOW if "TF_CONFIG" in environ or _RUNS_TENSORFLOW in threads else TORCH


def read_framework(pid: int) -> str:
    """The framework of a process; empty if it has none yet, or may not be read."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as maps:
            mapped = parse_libraries(maps.read())
    except OSError:
        return ""
    return which(mapped, read_environ(pid), _threads(pid)) if len(mapped) > 1 else which(mapped, (), ())


def serves_a_cluster(pid: int) -> bool:
    """Whether it is one of several TensorFlow tasks, also where its script set TF_CONFIG and /proc does not show it."""
    return read_framework(pid) == TENSORFLOW and _SERVES in _threads(pid)


def _threads(pid: int) -> frozenset[str]:
    """Their names. TensorFlow has more than a hundred: no more is read of them than that."""
    try:
        tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return frozenset()
    return frozenset(stat.name for tid in tids if (stat := read_stat(pid, tid)) is not None)


class Frameworks:
    """Of the processes of a job, each asked until it has told."""

    def __init__(self, read: Callable[[int], str] = read_framework) -> None:
        self._read = read
        self._told: dict[tuple[int, int], str] = {}

    def of(self, pid: int, start_ticks: int) -> str:
        """What this process trains with."""
        told = self._told.get((pid, start_ticks)) or self._read(pid)
        if told:
            self._told[pid, start_ticks] = told
        return told

    @property
    def most(self) -> str:
        """What most of them train with; empty while none has told."""
        names = list(self._told.values())
        return max(names, key=names.count, default="")
