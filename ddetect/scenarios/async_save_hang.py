"""A process of each rank saves in the background (`dcp.async_save`); one rank's hangs while it writes.

All ranks wait in `result()` for the save before, and the processes of the others for the one that writes: their ranks
stand at the same line as the struck one.
"""

import os
import tempfile
import time
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import training
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.nn.parallel import DistributedDataParallel

SAVE_EVERY = 10


class Uploads(dcp.FileSystemWriter):
    """Writes through something that does not answer when it is to hang."""

    def __init__(self, path: str, hangs: bool) -> None:
        super().__init__(path)
        self.hangs = hangs

    def write_data(self, plan: Any, planner: Any) -> Any:
        if self.hangs:
            upload_shard()
        return super().write_data(plan, planner)


def upload_shard() -> None:
    training.die_with_parent()
    time.sleep(training.LIFETIME_S)


def wait_for_save(saving: Future[Any]) -> None:
    saving.result()  # <- stuck here


if __name__ == "__main__":
    args = training.arguments()
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    saving = None
    with tempfile.TemporaryDirectory() as mine:
        folders = [mine]
        dist.broadcast_object_list(folders)
        for step in range(1_000_000):
            time.sleep(args.step_ms / 1000)
            optimizer.zero_grad()
            model(torch.ones(4, 16)).pow(2).mean().backward()
            optimizer.step()
            if step % SAVE_EVERY == 0:
                if saving is not None:
                    wait_for_save(saving)
                hangs = dist.get_rank() == args.rank and step >= args.at
                saving = dcp.async_save(
                    {"model": model.module.state_dict()},
                    storage_writer=Uploads(os.path.join(folders[0], str(step)), hangs),
                    async_checkpointer_type=AsyncCheckpointerType.PROCESS,
                )
