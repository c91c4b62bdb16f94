"""Now and then a step takes many times longer than usual, on a rank that nobody can predict."""

import random
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

args = training.arguments(steps=150, times=60)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
draw = random.Random(args.at * 1000 + dist.get_rank())
for step in range(args.steps):
    slow = step > 20 and draw.random() < 0.02
    time.sleep(args.step_ms / 1000 * (args.times if slow else 1))
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
