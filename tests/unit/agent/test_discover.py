"""Ranks of TensorFlow without a page: their task is in the environment they were started with."""

from __future__ import annotations

import json

import pytest

from ddetect.agent.census import Census
from ddetect.agent.discover import EnvironmentScan, local_world_of
from ddetect.agent.members import JobProcess
from ddetect.agent.sample import Sampler
from ddetect.frameworks.framework import NativeMode
from ddetect.model import UNKNOWN, Role
from tests.unit.stacks.targets import running

WAITS = "import sys; print('ready', flush=True); sys.stdin.readline()"
MAPS = """
import mmap, sys
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    mapped = mmap.mmap(file.fileno(), 4096)
print("ready", flush=True)
sys.stdin.readline()
"""
STARTS_A_RANK = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, "RANK": "1", "WORLD_SIZE": "2"})
child.wait()
"""


def task(index: int, *workers: str) -> str:
    """The TF_CONFIG of a worker."""
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


def test_worker_without_a_page_is_found_by_its_task(tmp_path):
    """As a torchrun child is by its RANK."""
    env = {"DDETECT_RUN_DIR": str(tmp_path), "RANK": "", "TF_CONFIG": task(1, "localhost:1", "localhost:2")}
    with running(WAITS, env=env) as child:
        (found,) = EnvironmentScan(str(tmp_path)).find(known=())

    assert (found.pid, found.rank, found.world_size) == (child.pid, 1, 2)


def test_launcher_that_only_inherits_a_task_is_no_rank(tmp_path):
    """Some clouds set TF_CONFIG for every job: who started ranks that have a RANK is not one of them."""
    env = {"DDETECT_RUN_DIR": str(tmp_path), "RANK": "", "TF_CONFIG": task(0, "localhost:1", "localhost:2")}
    with running(STARTS_A_RANK, WAITS, env=env) as launcher:
        (found,) = EnvironmentScan(str(tmp_path)).find(known=())

    assert (found.parent, found.rank) == (launcher.pid, 1)


def test_cluster_says_how_many_ranks_its_hosts_have():
    """A worker that is missing on a loopback cluster was never started; over several hosts each has its own."""
    assert local_world_of({"TF_CONFIG": task(0, "localhost:1", "localhost:2", "127.0.0.1:3")}, 3) == 3
    assert local_world_of({"TF_CONFIG": task(2, "a:1", "a:2", "b:1")}, 3) == 1


def test_cluster_of_another_size_than_the_rank_knows_says_nothing():
    """The script set a TF_CONFIG of its own after it began, or the job is none of TensorFlow's."""
    inherited = {"TF_CONFIG": task(0, "localhost:1", "localhost:2")}

    assert local_world_of(inherited, 8) == UNKNOWN
    assert local_world_of({**inherited, "RANK": "0"}, 2) == UNKNOWN


@pytest.mark.parametrize(
    ("world", "mode"), [(1, NativeMode.ALL), (2, NativeMode.NONE), (UNKNOWN, NativeMode.NONE)]
)
def test_worker_without_a_page_is_never_paused_for_c_symbols(tmp_path, world, mode):
    """TensorFlow would take it for dead; what it has mapped tells that it is TensorFlow's. Alone it may be paused."""
    library = tmp_path / "libtensorflow_framework.so.2"
    sampler = Sampler(Census(str(tmp_path)), ())
    try:
        with running(MAPS, str(library)) as child:
            member = JobProcess(child.pid, 1, Role.RANK, 0, world_size=world)

            assert sampler.native_mode(member) is mode
    finally:
        sampler.close()
