"""The probe in real torchrun jobs of two ranks: what the pages of a standing job say, and what the job prints."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from ddetect_probe import page

from tests.unit.probe.conftest import Job, job  # noqa: F401 - a fixture

Facts = TypeVar("Facts")

STANDS = """
import json, sys, threading, time
import torch, torch.distributed as dist
from torch._C import _distributed_c10d as C
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, other = dist.get_rank(), 1 - dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
one, odd = torch.ones(2), dist.new_group([1], group_desc="odd")
mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
for step, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(12, 2)), batch_size=4)):
    model(x).sum().backward()
    optimizer.step()
    dist.broadcast(one, src=step % 2)
    if rank == 0:
        dist.send(one, 1, tag=step)
        kept = dist.isend(one, 1)
    else:
        dist.recv(one, tag=step) if step else dist.recv(one, 0, tag=step)
        dist.recv(one, 0)
    dist.all_reduce(one, op=dist.ReduceOp.MAX)
    kept = None                                              # sent, and dropped without a wait
both = [dist.P2POp(dist.isend, one, other), dist.P2POp(dist.irecv, torch.ones(2), other)]
both = [work.wait() for work in dist.batch_isend_irecv(both)]
dist.all_gather_object([None, None], rank)
dist.monitored_barrier()
dist.reduce(one, dst=1)
dist.gather(one, [one.clone(), one.clone()] if rank == 0 else None, group_dst=0)
early = dist.irecv(torch.ones(2), other, tag=77)             # posted, nobody waits for it
with open(f"FOLDER/fr-{rank}.json", "wb") as file:
    file.write(C._dump_fr_trace_json())
if rank == 0:
    dist.recv(one, 1, tag=99)                                # nobody sends
else:
    dist.broadcast(one, src=0)                               # nobody else comes
"""


def until(facts: Callable[[], Facts], expected: Facts, *, timeout_s: float = 120) -> None:
    """Wait until what is seen is what is expected; a failure shows both."""
    deadline = time.monotonic() + timeout_s
    while (seen := facts()) != expected:
        if time.monotonic() > deadline:
            assert seen == expected
        time.sleep(0.02)


def torchrun(job: Job, program: Path, ranks: int = 2) -> Path:  # noqa: F811
    """A program that is torchrun, so that it is ended with the job by one pid."""
    lines = f"sys.argv = ['torchrun', '--nproc-per-node', '{ranks}', {str(program)!r}]"
    return job.write("torchrun", f"import sys\n{lines}\nfrom torch.distributed.run import main\nmain()\n")


def test_pages_of_a_standing_job_tell_where_each_rank_is(job: Job) -> None:  # noqa: F811
    """Steps, batches, groups, open operations and rooted calls, with the recorder's own numbers."""
    program = job.write("train.py", STANDS.replace("FOLDER", str(job.folder)))
    process = job.start(torchrun(job, program))
    ranks: dict[int, page.Page] = {}

    def standing() -> dict[str, object]:
        """Both are in the last call of the program, and the tick has seen all groups that torch made by itself."""
        assert process.poll() is None, process.communicate()[1]
        ranks.update({p.header()[page.S_RANK]: p for p in job.pages() if p.header()[page.S_RANK] >= 0})
        if len(ranks) < 2:
            return {"ranks": sorted(ranks)}
        return {
            "ranks": sorted(ranks),
            "open": sorted((op.tag, op.waiting) for op in ranks[0].open_ops()),
            "lanes": [seen.lanes()[0].phase for _, seen in sorted(ranks.items())],
            "last": [op for _, op in sorted((c.seq, c.op) for c in ranks[1].calls() if c.group == 0)[-2:]],
            "tp": [any("tp" in g.desc for g in seen.groups()) for seen in ranks.values()],
        }

    try:
        until(
            standing,
            {
                "ranks": [0, 1],
                "open": [(77, False), (99, True)],
                "lanes": [page.P2P, page.COLLECTIVE],
                "last": ["gather", "broadcast"],
                "tp": [True, True],
            },
        )
        for rank, seen in ranks.items():
            header = seen.header()
            assert (header[page.S_ROLE], header[page.S_WORLD], header[page.S_LOCAL_RANK]) == (
                page.ROLE_RANK,
                2,
                rank,
            )
            assert (seen.lanes()[0].steps, seen.lanes()[0].batches) == (3, 3)
            assert (header[page.S_PG_STATE], header[page.S_HOOKS_OFF]) == (page.PG_READY, 0)
            assert (job.run / "sock" / f"{header[page.S_PID]}.sock").is_socket()
            assert ticks_move(seen)
        assert [g[1:] for g in ranks[0].groups()[:1]] == [("0", "default_pg", "gloo", "0-1")]
        assert ("odd", "gloo", "1") in [g[2:] for g in ranks[1].groups()]

        open_ops = {(op.kind, op.peer, op.tag, op.waiting) for op in ranks[0].open_ops()}
        assert open_ops == {(page.RECV, 1, 77, False), (page.RECV, 1, 99, True)}
        assert ranks[0].lanes()[0].phase == page.P2P
        assert {(op.tag, op.waiting) for op in ranks[1].open_ops()} == {(77, False)}

        for rank, seen in ranks.items():
            recorded = {
                entry["collective_seq_id"]: entry["profiling_name"].partition(":")[2]
                for entry in json.loads((job.folder / f"fr-{rank}.json").read_text())["entries"]
                if entry["process_group"][0] == "0"
            }
            calls = {call.seq: call for call in seen.calls() if call.group == 0}
            finished = {seq: call.op for seq, call in calls.items() if seq <= max(recorded)}
            assert len(finished) == 8
            assert finished == {seq: recorded[seq] for seq in finished}
            assert [c.root for _, c in sorted(calls.items()) if c.op == "broadcast"][:3] == [0, 1, 0]
            assert {c.reduce_op for c in calls.values() if c.op == "all_reduce"} == {"MAX"}
            assert [(c.root, c.reduce_op) for c in calls.values() if c.op == "reduce"] == [(1, "SUM")]
            assert [c.root for c in calls.values() if c.op == "gather"] == [0]
        last = max(c.seq for c in ranks[1].calls() if c.group == 0)
        assert [c.op for c in ranks[1].calls() if (c.seq, c.group) == (last, 0)] == ["broadcast"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def ticks_move(seen: page.Page) -> bool:
    before = seen.header()[page.S_TICKS]
    until(lambda: seen.header()[page.S_TICKS] > before, True, timeout_s=60)
    return True


PRINTS = """
import sys, warnings
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == FAIL_AT:
            raise ValueError("bad item")
        return torch.zeros(2)

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
for x in DataLoader(Items(), batch_size=2, num_workers=1):
    model(x).sum().backward()
    dist.all_reduce(torch.ones(1))
warnings.warn("look here")
last = dist.get_world_size() - 1
if dist.get_rank() == last:
    print("out", flush=True)
try:
    dist.broadcast(torch.ones(1), src=5)
except Exception:
    import traceback
    if dist.get_rank() == last:
        traceback.print_exc()
dist.barrier()
dist.destroy_process_group()
sys.exit(0)
"""


@pytest.mark.parametrize(
    ("fail_at", "ranks"), [(-1, 2), (5, 1)]
)  # of two that fail, torchrun may kill one first
def test_output_and_exit_code_of_a_job_are_those_of_the_job_alone(job: Job, fail_at: int, ranks: int) -> None:  # noqa: F811
    """Good end or uncaught exception: byte for byte the same, but for times, pids and addresses."""
    program = job.write("train.py", PRINTS.replace("FAIL_AT", str(fail_at)))
    launcher = torchrun(job, program, ranks)

    plain = job.finish(launcher, probe=False)
    watched = job.finish(launcher)

    assert plain.returncode == (0 if fail_at < 0 else 1), plain.stderr
    assert (watched.returncode, watched.stdout) == (plain.returncode, plain.stdout)
    assert comparable(watched.stderr) == comparable(plain.stderr)
    assert len([p for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_RANK]) == ranks
    assert "ddetect" not in watched.stderr


def comparable(text: str) -> list[str]:
    """Lines without what differs between any two runs; two ranks may print in either order."""
    text = re.sub(r"(?m)^[EW]\d{4} [\d:.]+ \d+ ", "", text)
    text = re.sub(r"(?i)(pid|local_rank)\s*:?\s*\d+", r"\1", text)
    text = re.sub(r"rank\s*:\s*\d.*|\[rank\d\]|exitcode.*|time\s+:.*|host\s+:.*|\bRank \d\b", "", text)
    return sorted(line for line in text.splitlines() if "Broken pipe" not in line and "TCPStore" not in line)
