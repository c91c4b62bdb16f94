"""Gradient accumulation: one rank counts its micro-batches wrongly and skips the synchronization that the others do."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def share_lr() -> None:
    dist.broadcast(torch.ones(1), src=0)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    for micro_batch in range(2):
        time.sleep(args.step_ms / 2000)
        last = micro_batch == 1
        if step == args.at and dist.get_rank() == args.rank:
            last = False
        model.require_backward_grad_sync = last  # what no_sync() does
        model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    share_lr()
