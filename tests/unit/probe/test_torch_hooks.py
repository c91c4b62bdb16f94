"""The hooks in one real torch process; jobs of several ranks are in tests/live/test_probe_job.py."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest
from ddetect_probe import page

from tests.unit.probe.conftest import Job
from tests.unit.stacks.targets import until

pytest.importorskip("torch", reason="NOT TESTED, the torch hooks: the extra `torch` is not installed")
pytestmark = pytest.mark.timeout(400)  # torch is imported up to four times, and compiles, on a busy machine

TRAINS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(2, 1)
first = torch.optim.SGD(model.parameters(), 0.1)
second = torch.optim.AdamW(model.parameters(), 0.1)
for epoch in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(12, 2)), batch_size=4, num_workers=WORKERS):
        model(x).sum().backward()
        first.step()
        second.step()
print("done")
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_plain_program_is_rank_0_of_1_with_its_batches_and_steps(job: Job, workers: int) -> None:
    """Without RANK, the first batch decides; ends of epochs are no batches; each optimizer's step counts."""
    done = job.finish(job.write("train.py", TRAINS.replace("WORKERS", str(workers))))

    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    ranks = [p.header() for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_RANK]
    (lane,) = [p.lanes()[0] for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_RANK]
    loaders = [p.header() for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_LOADER_WORKER]
    (rank,) = ranks
    assert (rank[page.S_RANK], rank[page.S_WORLD]) == (0, 1)
    assert (lane.batches, lane.steps, lane.phase) == (6, 12, page.EXITING)
    assert (rank[page.S_HOOKS_OFF], rank[page.S_EXIT]) == (0, page.EXITED)
    assert sorted(h[page.S_WORKER_INDEX] for h in loaders) == sorted([*range(workers)] * 2)
    fetches = sum(h[page.S_FETCHES] for h in (loaders or ranks))
    assert fetches == 6
    assert all(h[page.S_EXIT] == page.EXITED and h[page.S_FETCH] == -1 for h in loaders)


STUCK = """
import sys, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 21:
            print("stuck", flush=True)
            open(FIFO).read()
        return torch.zeros(1)

for x in DataLoader(Slow(), batch_size=4, num_workers=2):
    pass
"""


def test_stuck_loader_worker_says_which_batch_it_reads_and_the_rank_that_it_waits(job: Job) -> None:
    """The worker's page names the first index of its batch; the rank's lane says DATA."""
    fifo = job.folder / "fifo"
    os.mkfifo(fifo)
    process = job.start(
        job.write("train.py", STUCK.replace("FIFO", repr(str(fifo)))), RANK="0", WORLD_SIZE="1"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stuck\n"

    rank = job.page_of(process.pid)

    def stuck() -> list[tuple[int, ...]]:
        return [p.header() for p in job.pages() if p.header()[page.S_FETCH] == 20]

    # the rank first eats what the other worker has ready
    until(lambda: stuck() and rank.lanes()[0][:2] == (0, page.DATA) and rank.lanes()[0].batches == 5)
    (header,) = stuck()
    assert (header[page.S_ROLE], header[page.S_WORKER_INDEX]) == (page.ROLE_LOADER_WORKER, 1)
    assert (header[page.S_PARENT], header[page.S_RANK]) == (process.pid, 0)
    assert 0 < time.monotonic_ns() - header[page.S_FETCH_NS] < 60e9
    assert rank.lanes()[0].phase == page.DATA
    fifo.write_text("")
    assert process.communicate(timeout=60)[1] == ""


IN_A_THREAD = """
import sys, threading, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 1:
            print(threading.get_native_id(), flush=True)
            sys.stdin.readline()
        return torch.zeros(2)

def train():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x in DataLoader(Slow(), batch_size=2):
        model(x).sum().backward()
        optimizer.step()
    print("trained", flush=True)
    sys.stdin.readline()

thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def test_loop_in_a_thread_is_the_ranks_loop(job: Job) -> None:
    """The main thread only joins; loads and steps are the other's, and so is the lane."""
    process = job.start(job.write("train.py", IN_A_THREAD), RANK="0", WORLD_SIZE="1")
    assert process.stdout is not None
    assert process.stdin is not None
    tid = int(process.stdout.readline())
    (loading,) = job.page_of(process.pid).lanes()
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "trained\n"
    (after,) = job.page_of(process.pid).lanes()

    assert (loading.tid, loading.phase, loading.steps, loading.batches) == (tid, page.DATA, 0, 0)
    assert (after.tid, after.phase, after.steps, after.batches) == (tid, page.OTHER, 4, 4)
    assert process.communicate("\n", timeout=60)[1] == ""
    assert job.page_of(process.pid).lanes()[0].phase == page.EXITING


STATEFUL_WORKER = """
def _worker_loop(dataset_kind, dataset, index_queue, worker_id, num_workers):
    dataset()
"""
STATEFUL_LOADER = """
import torch.multiprocessing as multiprocessing
from .worker import _worker_loop

class StatefulDataLoader:
    def __init__(self, dataset):
        self.dataset = dataset
    def __iter__(self):
        self.worker = multiprocessing.get_context("fork").Process(
            target=_worker_loop, args=(0, self.dataset, None, 3, 4))
        self.worker.start()
        self.worker.join()
        return iter(())
"""
STATEFUL = """
import os, sys
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

def stuck():
    print(os.getpid(), flush=True)
    os.read(3, 1)

read, write = os.pipe()
os.dup2(read, 3)
for x in StatefulDataLoader(stuck):
    pass
"""


def test_loader_of_torchdata_is_a_loader(job: Job) -> None:
    """It waits for its workers already in __iter__, and they run a loop of its own. (A stand-in of its shape.)"""
    folder = "site/torchdata/stateful_dataloader"
    job.write("site/torchdata/__init__.py", "")
    job.write(f"{folder}/__init__.py", "from .stateful_dataloader import StatefulDataLoader\n")
    job.write(f"{folder}/worker.py", STATEFUL_WORKER)
    job.write(f"{folder}/stateful_dataloader.py", STATEFUL_LOADER)
    process = job.start(
        job.write("train.py", STATEFUL), path=str(job.folder / "site"), RANK="0", WORLD_SIZE="1"
    )
    assert process.stdout is not None
    number = int(process.stdout.readline())
    try:
        worker = job.page_of(number).header()
        rank = job.page_of(process.pid)

        assert (worker[page.S_ROLE], worker[page.S_WORKER_INDEX]) == (page.ROLE_LOADER_WORKER, 3)
        assert (rank.lanes()[0].phase, rank.lanes()[0].batches, rank.hooks_off()) == (page.DATA, 0, [])
    finally:
        os.kill(number, signal.SIGKILL)
    assert process.communicate(timeout=60)[1] == ""


COMPILES = """
import torch
import torch.distributed as dist

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def whole(x):
    loss = model(x).sum()
    optimizer.step()
    return loss

def part(x):
    return model(x).sum()

model(torch.randn(1, 2)).sum().backward()
torch.compile(whole, backend="eager")(torch.randn(1, 2))
torch.compile(part, backend="eager", fullgraph=True)(torch.randn(1, 2)).backward()
optimizer.step()

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

@torch.compile(backend="eager", fullgraph=True)
def reduced(x):
    dist.all_reduce(x)
    return x * 2

print(reduced(torch.ones(1)).item())
from torch._dynamo.utils import counters
print(sum(counters["graph_break"].values()), sorted(counters["graph_break"]))
dist.P2POp(dist.isend, torch.ones(1), 0)
dist.destroy_process_group()
"""


def without_log_heads(text: str) -> str:
    """Torch's log lines begin with the time and the pid, which no two runs share."""
    return re.sub(r"(?m)^[WE]\d{4} \S+ \d+ ", "", text)


@pytest.mark.live  # torch compiles, or is imported by several processes: too slow for every change
def test_torch_compile_sees_no_graph_break_of_ours(job: Job) -> None:
    """An optimizer step or a collective under torch.compile breaks the graph where it does without the probe."""
    program = job.write("train.py", COMPILES)

    plain = job.finish(program, probe=False)
    watched = job.finish(program)

    assert plain.returncode == 0, plain.stderr
    assert (watched.returncode, watched.stdout) == (0, plain.stdout)
    assert without_log_heads(watched.stderr) == without_log_heads(plain.stderr)
    (seen,) = job.pages()
    assert seen.header()[page.S_HOOKS_OFF] == 0
    assert seen.lanes()[0].steps >= 1


COMPILES_COLLECTIVES = """
import torch
import torch.distributed as dist
from torch._dynamo.testing import CompileCounter

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

def broadcasts(x):
    dist.broadcast(x, 0)
    return x * 2

def waits(x):
    work = dist.all_reduce(x, async_op=True)
    y = x + 1
    work.wait()
    return y * 2

for function in (broadcasts, waits):
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter)
    print([compiled(torch.ones(1)).item() for _ in range(2)], counter.frame_count)
"""


@pytest.mark.live  # torch compiles, or is imported by several processes: too slow for every change
def test_compiled_function_with_a_collective_makes_as_many_graphs_as_alone(job: Job) -> None:
    """Dynamo neither traces our hooks nor gives a function up because of `Work.wait`."""
    program = job.write("train.py", COMPILES_COLLECTIVES)

    plain = job.finish(program, probe=False)
    watched = job.finish(program)

    assert plain.returncode == 0, plain.stderr
    assert (watched.returncode, watched.stdout) == (0, plain.stdout)
    (seen,) = job.pages()
    assert seen.header()[page.S_HOOKS_OFF] == 0


SPAWNS = """
import os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp

def rank_main(rank, folder):
    store = dist.FileStore(os.path.join(folder, "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 1 and "fail" in sys.argv[0]:
        raise ValueError("rank 1 gives up")

if __name__ == "__main__":
    try:
        mp.start_processes(rank_main, (os.getcwd(),), nprocs=2, start_method=METHOD)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.live), "fork"])
def test_ranks_of_torch_multiprocessing_are_known_by_what_they_join_as(job: Job, method: str) -> None:
    """The rank comes from init_process_group; the parent that started them is no rank."""
    done = job.finish(job.write("train.py", SPAWNS.replace("METHOD", repr(method))))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ranks = sorted(
        (p.header() for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_RANK),
        key=lambda h: h[page.S_RANK],
    )
    assert [(h[page.S_RANK], h[page.S_WORLD], h[page.S_PG_STATE]) for h in ranks] == [
        (0, 2, page.PG_LEFT),
        (1, 2, page.PG_LEFT),
    ]
    assert [p.lanes()[0].calls for p in job.pages() if p.header()[page.S_ROLE] == page.ROLE_RANK] == [1, 1]
    assert all(h[page.S_TICKS] >= 1 and h[page.S_EXIT] == page.EXITED for h in ranks)
    assert sorted(path.name for path in (job.run / "sock").iterdir()) == sorted(
        f"{h[page.S_PID]}.sock" for h in ranks
    )
    assert [p.header()[page.S_ROLE] for p in job.pages()].count(page.ROLE_OTHER) == 1


STARTS_A_WRITER = """
import subprocess, sys, torch
import torch.distributed as dist

if sys.argv[0].endswith("joins.py") or sys.argv[1:]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
if not sys.argv[1:]:
    subprocess.run([sys.executable, sys.argv[0], "writer"], check=True)
"""


@pytest.mark.live  # torch is imported by two processes
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joins.py", [(page.ROLE_RANK, 0, page.PG_READY), (page.ROLE_CHILD, 0, page.PG_READY)]),
        ("starts.py", [(page.ROLE_RANK, 5, page.PG_NONE), (page.ROLE_RANK, 0, page.PG_READY)]),
    ],
)
def test_child_that_joins_a_group_is_a_rank_only_if_its_parent_is_in_none(
    job: Job, name: str, expected: list[tuple[int, int, int]]
) -> None:
    """A writer of checkpoints has a group of its own, and stays its rank's child; a parent may only start ranks."""
    done = job.finish(job.write(name, STARTS_A_WRITER), RANK="5", WORLD_SIZE="8")

    assert (done.returncode, done.stderr) == (0, "")
    headers = sorted((p.header() for p in job.pages()), key=lambda h: h[page.S_CREATED_NS])
    assert [(h[page.S_ROLE], h[page.S_RANK], h[page.S_PG_STATE]) for h in headers] == expected


@pytest.mark.live  # torch compiles, or is imported by several processes: too slow for every change
def test_exception_that_ends_a_spawned_rank_is_in_its_page(job: Job) -> None:
    """torch's spawn catches it and exits 1; the page still has the user's line."""
    done = job.finish(job.write("train_fail.py", SPAWNS.replace("METHOD", "'spawn'")))

    assert done.stdout == "ProcessRaisedException\n"
    told = [p for p in job.pages() if p.exception()]
    assert [p.header()[page.S_RANK] for p in told] == [1]
    assert told[0].header()[page.S_EXIT] == page.RAISED
    error = told[0].exception() or {}
    assert (error["type"], error["message"], error["function"]) == (
        "ValueError",
        "rank 1 gives up",
        "rank_main",
    )


ESCAPES = """
import json, sys, torch
import torch.distributed as dist
from ddetect_probe import page, state

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
seen = page.Page(state.writer.path)
work = dist.all_reduce(torch.ones(1), async_op=True)
kept = work.wait
during = seen.lanes()[0].phase
with_timeout = kept(__import__("datetime").timedelta(seconds=5))
del kept
after = seen.lanes()[0].phase

class Mine(dist.Work):
    pass

own = Mine()
kind = type(own.wait).__name__
dist.destroy_process_group()
print(json.dumps([during, after, with_timeout, kind, state.broken_hooks()]))
"""


def test_work_objects_keep_their_ways(job: Job) -> None:
    """wait takes a timeout, ends its phase, leaves Python subclasses alone."""
    done = job.finish(job.write("train.py", ESCAPES), RANK="0", WORLD_SIZE="1")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [page.COLLECTIVE, page.OTHER, True, "method", []]
