"""Saves in the background with `dcp.async_save`, first by a thread of each rank, then by a process of each rank.

Those processes join a group of their own, under the numbers of their ranks; and a rank waits while its own is started.
"""

import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import training
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 15


def train_and_save(by: AsyncCheckpointerType, folder: str) -> None:
    saving = None
    for step in range(args.steps):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).pow(2).mean().backward()
        optimizer.step()
        if step % SAVE_EVERY == 0:
            if saving is not None:
                saving.result()
            saving = dcp.async_save(
                {"model": model.module.state_dict()},
                checkpoint_id=os.path.join(folder, f"{by.value}-{step}"),
                async_checkpointer_type=by,
            )
    saving.result()


if __name__ == "__main__":
    args = training.arguments(steps=100)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as mine:
        folders = [mine]
        dist.broadcast_object_list(folders)  # all write into the first rank's
        for by in (AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS):
            train_and_save(by, folders[0])
        dist.barrier()
    dist.destroy_process_group()
