"""Uneven inputs under DDP's join(): ranks that are done answer for those that are not, for quite a while."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

args = training.arguments(steps=60)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with model.join():
    for _ in range(args.steps * (1 + dist.get_rank())):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).pow(2).mean().backward()
        optimizer.step()
dist.barrier()
dist.destroy_process_group()
