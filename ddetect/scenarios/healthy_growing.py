"""Sequences grow from step to step, and so does the time that a step takes: from milliseconds to seconds."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

args = training.arguments(steps=60, growth=1.1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 5000 * args.growth**step)
    optimizer.zero_grad()
    model(torch.ones(4 + step, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
