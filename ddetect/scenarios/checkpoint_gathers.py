"""One rank alone calls a save that gathers from everybody; the others train on and meet it with another call."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save_sharded() -> None:
    shards = [torch.empty(68) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, torch.ones(68))  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    if step == args.at and dist.get_rank() == args.rank:
        save_sharded()
