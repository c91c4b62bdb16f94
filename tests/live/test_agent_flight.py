"""The agent's senses on a real two-rank torchrun job with the probe, without launcher or coordinator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import ddetect_probe
import psutil
import pytest
from ddetect_probe import page as layout

from ddetect.agent.node import Node
from ddetect.messages import Evidence, NodeBeat, NodeRoster, TakeEvidence
from ddetect.model import UNKNOWN, OpState, Role, Thread
from tests.live.alone import family

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
            for process in family(launcher.pid):
                try:
                    process.kill()
                except psutil.Error:
                    pass  # it ended by itself
            launcher.wait()
            node.close()


Facts = TypeVar("Facts")


def take(node: Node, facts: Callable[[Evidence], Facts], expected: Facts, within_s: float = 90.0) -> Evidence:
    """Evidence whose facts are as expected. One round may miss a busy recorder or dumper, and says so."""
    deadline = time.monotonic() + within_s
    while True:
        node.tick()
        evidence = node.answer(TakeEvidence(1))
        assert evidence is not None
        if facts(evidence) == expected:
            return evidence
        if time.monotonic() > deadline:
            assert facts(evidence) == expected, (evidence.look.comms.progress, evidence.look.unread)
        time.sleep(0.3)


def rows(evidence: Evidence) -> dict[tuple[int, str], tuple[int, int, int]]:
    """(rank, group) -> enqueued, completed, oldest open."""
    told = evidence.look.comms.progress
    return {
        (int(rank), evidence.look.comms.groups[group].name): (int(enqueued), int(completed), int(oldest))
        for rank, group, enqueued, completed, oldest in zip(
            told.rank, told.group, told.enqueued, told.completed, told.oldest_open, strict=True
        )
    }


def main_of(evidence: Evidence, rank: int, role: Role = Role.RANK) -> tuple[int, Thread] | None:
    """The row and the main thread of a rank's only process in this role, when its stack could be read."""
    sample = evidence.look.sample
    found = [row for row in range(len(sample)) if (sample.rank[row], sample.role[row]) == (rank, role)]
    main = sample.sightings[sample.sighting[found[0]]].main if len(found) == 1 else None
    return (found[0], main) if main is not None and main.stack else None


def test_stuck_loader_worker_and_the_operation_its_peer_waits_in_are_in_one_evidence() -> None:
    """Rank 0 is in broadcast number 4 that rank 1 never began; the worker of rank 1 shows the user's line."""

    def facts(evidence: Evidence) -> dict[str, object]:
        ops = zip(evidence.look.comms.ops.call, evidence.look.comms.ops.state, strict=True)
        pending = [evidence.look.comms.calls[s] for s, state in ops if state < OpState.COMPLETED]
        row, worker = main_of(evidence, 1, Role.LOADER_WORKER) or (0, None)
        place = worker and (worker.stack[0].function, worker.syscall, worker.stack[-1].function)
        return {
            "rows": rows(evidence),
            "open": [(op.op, op.in_sizes, op.root) for op in pending],
            "reduced": {s.reduce_op for s in evidence.look.comms.calls if s.op == "all_reduce"},
            "members": {group.members for group in evidence.look.comms.groups},
            "worker": (place, evidence.look.sample.fetching[row], evidence.look.sample.index[row])
            if place
            else None,
            "unread": evidence.look.unread,
        }

    expected = {
        "rows": {(0, "1"): (4, 3, 4), (1, "1"): (3, 3, 0), (0, "0"): (3, 3, 0), (1, "0"): (3, 3, 0)},
        "open": [("broadcast", "[[3]]", 1)],
        "reduced": {"MAX"},
        "members": {(0, 1)},
        "worker": (("read_shard", "clock_nanosleep", "_bootstrap"), 3, 0),
        "unread": (),
    }
    with job(STUCK_LOADER) as (node, _):
        take(node, facts, expected)


def test_recorder_answers_while_the_gil_is_held() -> None:
    """Collectives are read from C++: a rank that holds its GIL in C still tells how far it came."""

    def facts(evidence: Evidence) -> tuple[object, ...]:
        told = rows(evidence)
        if (0, "0") not in told or (1, "0") not in told:
            return ("not both recorders answered",)
        ahead, behind = told[0, "0"], told[1, "0"]
        _, main = main_of(evidence, 1) or (0, None)
        return (
            ahead[1] > 0,
            (ahead[2], ahead[1], 0) == (behind[0] + 1, behind[0], behind[2]),
            main and (main.owns_gil, main.active),
        )

    with job(GIL_HELD) as (node, _):
        take(node, facts, (True, True, (True, False)))


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
        take(node, lambda e: sorted(rank for rank, group in rows(e) if group == "0"), [0, 1])
        (first, _) = node.census.ranks()
        os.kill(first.pid, signal.SIGSTOP)
        told = [((0,), "collectives: its process is stopped, so its Flight Recorder cannot answer")]
        take(node, lambda e: [(one.ranks, one.reason) for one in e.look.unread], told)
        os.kill(first.pid, signal.SIGCONT)


def test_spawned_layout_is_what_the_probe_writes() -> None:
    """Ranks, world and groups of a real job come through the page."""
    with job(NO_OPTIMIZER) as (node, run_dir):

        def facts(evidence: Evidence) -> tuple[object, ...]:
            roster = next(said for said in node.retell() if isinstance(said, NodeRoster))
            sockets = sorted(os.listdir(os.path.join(run_dir, "sock")))
            return (
                roster.roster.rank.tolist(),
                roster.world_size,
                sorted(f"{pid}.sock" for pid in roster.roster.pid) == sockets,
                {group.desc for group in evidence.look.comms.groups},
                list(zip(evidence.look.sample.index, evidence.look.sample.role, strict=True))[:1],
            )

        expected = ([0, 1], 2, True, {"default_pg", "undefined"}, [(UNKNOWN, layout.ROLE_RANK)])
        take(node, facts, expected)
