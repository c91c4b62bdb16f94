"""An IterableDataset whose shards are uneven: one rank runs out of data and reports while the others still train."""

import itertools
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

args = training.arguments()


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        endless = itertools.repeat(torch.ones(16))
        mine = training.my_rank() == args.rank
        return itertools.islice(endless, args.at * training.BATCH_SIZE) if mine else endless


def report(loss: float) -> None:
    losses: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(losses, loss)  # <- stuck here


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(
    Stream(), training.BATCH_SIZE, num_workers=1, worker_init_fn=training.die_with_parent
):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
report(0.5)
