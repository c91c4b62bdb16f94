"""Gradient accumulation: many micro-batches without a collective, then a step; steps are rare."""

import contextlib
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

args = training.arguments(steps=6, micro_batches=80)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = iter(training.loader(training.Numbers()))
for _ in range(args.steps):
    for micro_batch in range(args.micro_batches):
        time.sleep(args.step_ms / 1000)
        last = micro_batch == args.micro_batches - 1
        with contextlib.nullcontext() if last else model.no_sync():
            model(next(batches)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
