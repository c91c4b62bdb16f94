"""Uneven inputs under DDP's join(): the others are done and answer for the one that is not, and it gets stuck."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def augment_batch() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = 1_000_000 if dist.get_rank() == args.rank else args.at // 2
with model.join():
    for step in range(steps):
        if step == args.at:
            augment_batch()
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).pow(2).mean().backward()
        optimizer.step()
dist.destroy_process_group()
