"""The agent's senses on a real two-rank torchrun job with the probe, without launcher or coordinator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ddetect_probe
import pytest
from ddetect_probe import page as layout

from ddetect.agent.node import Node
from ddetect.host.proc import is_alive
from ddetect.messages import Evidence, NodeBeat, NodeRoster, TakeEvidence
from ddetect.model import UNKNOWN, OpState, Role

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]
pytest.importorskip("torch")

BEGIN = """
import ctypes, os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
dist.init_process_group("gloo")
rank = dist.get_rank()
pair = dist.new_group([0, 1])
"""
STUCK_LOADER = (
    BEGIN
    + """
class Shards(Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if rank == 1 and index == 3:
            self.read_shard()
        return torch.ones(4)
    def read_shard(self):
        time.sleep(600)
for batch in DataLoader(Shards(), batch_size=1, num_workers=1):
    dist.broadcast(torch.ones(3), 1, group=pair)
    dist.all_reduce(torch.ones(4), op=dist.ReduceOp.MAX)
"""
)
GIL_HELD = (
    BEGIN
    + """
dist.all_reduce(torch.ones(4))
if rank == 1:
    ctypes.PyDLL(None).sleep(600)
dist.all_reduce(torch.ones(4))
"""
)
NO_OPTIMIZER = (
    BEGIN
    + """
while True:
    dist.all_reduce(torch.ones(4))
    time.sleep(0.01)
"""
)


@contextmanager
def job(script: str) -> Iterator[tuple[Node, str]]:
    """Two ranks under torchrun with the probe; all of their processes are ended by pid."""
    with tempfile.TemporaryDirectory(prefix="dd") as short:
        run_dir = os.path.join(short, "r")
        for name in ("pages", "sock", "fault"):
            os.makedirs(os.path.join(run_dir, name))
        program = Path(short, "train.py")
        program.write_text(script)
        bootstrap = os.path.join(os.path.dirname(ddetect_probe.__file__), "bootstrap")
        env = {**os.environ, "DDETECT_RUN_DIR": run_dir, "DDETECT_JOB": "j", "PYTHONPATH": bootstrap}
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]
        launcher = subprocess.Popen([sys.executable, *command], env=env, stderr=subprocess.DEVNULL)
        node = Node(run_dir, name="n", job="j")
        try:
            yield node, run_dir
        finally:
            node.tick()
            ours = [*node.census.ranks(), *node.census.helpers()]
            launcher.kill()
            launcher.wait()
            for member in ours:
                if is_alive(member.pid, member.start_ticks):
                    os.kill(member.pid, signal.SIGKILL)
            node.close()


def take(node: Node, enough: object = None, within_s: float = 90.0) -> Evidence:
    """Evidence, once `enough(evidence)` holds."""
    assert callable(enough)
    deadline = time.monotonic() + within_s
    while True:
        node.tick()
        evidence = node.answer(TakeEvidence(1))
        assert evidence is not None
        if enough(evidence):
            return evidence
        assert time.monotonic() < deadline, (evidence.progress, evidence.unread)
        time.sleep(0.3)


def rows(evidence: Evidence) -> dict[tuple[int, str], tuple[int, int, int]]:
    """(rank, group) -> enqueued, completed, oldest open."""
    told = evidence.progress
    return {
        (int(rank), evidence.groups[group].name): (int(enqueued), int(completed), int(oldest))
        for rank, group, enqueued, completed, oldest in zip(
            told.rank, told.group, told.enqueued, told.completed, told.oldest_open, strict=True
        )
    }


def test_stuck_loader_worker_and_the_operation_its_peer_waits_in_are_in_one_evidence() -> None:
    """Rank 0 is in broadcast number 4 that rank 1 never began; the worker of rank 1 shows the user's line."""
    with job(STUCK_LOADER) as (node, _):
        evidence = take(node, lambda e: rows(e).get((0, "1"), (0, 0, 0))[2] == 4)

    assert rows(evidence) == {
        (0, "1"): (4, 3, 4),
        (1, "1"): (3, 3, 0),
        (0, "0"): (3, 3, 0),
        (1, "0"): (3, 3, 0),
    }
    ops = evidence.ops
    open_ops = [
        evidence.signatures[s]
        for s, state in zip(ops.signature, ops.state, strict=True)
        if state < OpState.COMPLETED
    ]
    assert [(op.op, op.in_sizes, op.root) for op in open_ops] == [("broadcast", "[[3]]", 1)]
    reduced = {s.reduce_op for s in evidence.signatures if s.op == "all_reduce"}
    assert (reduced, {(0, 1)}) == ({"MAX"}, {group.members for group in evidence.groups})
    sample = evidence.sample
    (worker,) = [
        row for row in range(len(sample)) if sample.rank[row] == 1 and sample.role[row] == Role.LOADER_WORKER
    ]
    main = sample.sightings[sample.sighting[worker]].main
    assert main is not None
    assert (
        main.stack[0].function,
        main.syscall,
        sample.fetching[worker],
        sample.index[worker],
    ) == ("read_shard", "clock_nanosleep", 3, 0)
    assert main.stack[-1].function == "_bootstrap"
    assert evidence.unread == ()


def test_recorder_answers_while_the_gil_is_held() -> None:
    """Collectives are read from C++: a rank that holds its GIL in C still tells how far it came."""
    with job(GIL_HELD) as (node, _):
        # One question at a time: rank 1 may still be busy with the one before.
        evidence = take(node, lambda e: (1, "0") in rows(e) and rows(e).get((0, "0"), (0, 0, 0))[2] > 0)
        row = evidence.sample.rank.tolist().index(1)
        main = evidence.sample.sightings[evidence.sample.sighting[row]].main

    ahead, behind = rows(evidence)[0, "0"], rows(evidence)[1, "0"]
    assert (ahead[2], ahead[1], 0) == (behind[0] + 1, behind[0], behind[2])
    assert main is not None
    assert (main.owns_gil, main.active) == (True, False)


def test_job_without_optimizer_shows_its_collectives_in_the_beat() -> None:
    """No step counter moves: the recorder is asked slowly, and its count moves instead."""

    def collectives(node: Node) -> list[int]:
        beat = next(said for said in node.tick() if isinstance(said, NodeBeat))
        return beat.beats.collectives.tolist()

    with job(NO_OPTIMIZER) as (node, _):
        deadline = time.monotonic() + 90
        seen: set[tuple[int, ...]] = set()
        while len(seen) < 3:
            if len(counts := collectives(node)) == 2:
                seen.add(tuple(counts))
            assert time.monotonic() < deadline, seen
            time.sleep(0.5)

    assert all(sorted(column) == list(column) for column in zip(*sorted(seen), strict=True))
    assert max(seen)[0] > 0


def test_stopped_rank_is_not_asked_and_the_reason_is_told() -> None:
    """Asking a stopped process would only wait; what is missing is said instead."""
    with job(GIL_HELD) as (node, _):
        take(node, lambda e: rows(e).get((0, "0"), (0, 0, 0))[2] > 0)
        (first, _) = node.census.ranks()
        os.kill(first.pid, signal.SIGSTOP)
        began = time.monotonic()
        evidence = take(node, lambda e: e.unread)
        took = time.monotonic() - began
        os.kill(first.pid, signal.SIGCONT)

    assert [(one.ranks, "stopped" in one.reason) for one in evidence.unread] == [((0,), True)]
    assert took < 10


def test_spawned_layout_is_what_the_probe_writes() -> None:
    """Ranks, world and groups of a real job come through the page."""
    with job(NO_OPTIMIZER) as (node, run_dir):
        evidence = take(node, lambda e: len(e.groups) == 2)
        roster = next(said for said in node.retell() if isinstance(said, NodeRoster))
        sockets = sorted(os.listdir(os.path.join(run_dir, "sock")))

    assert (roster.roster.rank.tolist(), roster.world_size) == ([0, 1], 2)
    assert sorted(f"{pid}.sock" for pid in roster.roster.pid) == sockets
    assert {"default_pg", "undefined"} == {group.desc for group in evidence.groups}
    assert (evidence.sample.index[0], evidence.sample.role[0]) == (UNKNOWN, layout.ROLE_RANK)
