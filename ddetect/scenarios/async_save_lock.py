"""A thread saves in the background, over a group of its own; one rank's waits for a file lock that is never given back.

All main threads wait in `result()` for the save before, as with `dcp.async_save`; the other ranks' threads gather.
"""

import fcntl
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 5


def write_shard(state: dict[str, torch.Tensor]) -> None:
    with open(f"/proc/self/fd/{store.fileno()}", "rb+") as shard:  # it has no name: nothing is left behind
        fcntl.flock(shard, fcntl.LOCK_EX)  # <- stuck here
        torch.save(state, shard)


def save(step: int, state: dict[str, torch.Tensor]) -> None:
    write_shard(state)
    saved: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(saved, step, group=savers)


args = training.arguments()
dist.init_process_group("gloo")
savers = dist.new_group(backend="gloo", group_desc="savers")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
saving: Future[None] | None = None
with tempfile.TemporaryFile() as store, ThreadPoolExecutor(1) as pool:
    for step in range(1_000_000):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).pow(2).mean().backward()
        optimizer.step()
        if step == args.at and dist.get_rank() == args.rank:
            fcntl.flock(store, fcntl.LOCK_EX)  # somebody else opened the same file, and keeps it
        if step % SAVE_EVERY == 0:
            if saving is not None:
                saving.result()
            state = {name: value.clone() for name, value in model.state_dict().items()}
            saving = pool.submit(save, step, state)
