"""One rank has its model evaluated elsewhere and sleeps until the answer is there; that takes longer every time."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def evaluate_elsewhere(seconds: float) -> None:
    time.sleep(seconds)


args = training.arguments(steps=110, evaluate_every=30, evaluate_s=10.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    times, rest = divmod(step + 1, args.evaluate_every)
    if rest == 0 and dist.get_rank() == args.rank:
        evaluate_elsewhere(args.evaluate_s * (1 + times) / 2)
dist.destroy_process_group()
