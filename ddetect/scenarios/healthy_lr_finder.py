"""A learning-rate finder runs short trainings, each with a model of its own, and thinks between them."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def try_rate(rate: float, steps: int) -> None:
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(steps):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(torch.ones(4, 16)).pow(2).mean().backward()
        optimizer.step()


def fit_curve(seconds: float) -> None:
    """One rank looks for the steepest descent; the others wait to hear of it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.linalg.lstsq(torch.rand(40, 4), torch.rand(40, 1))
        time.sleep(0.01)


args = training.arguments(steps=25, rates=5, think_s=4.0)
dist.init_process_group("gloo")
for number in range(args.rates):
    try_rate(10.0 ** (number - 5), args.steps)
    if dist.get_rank() == args.rank:
        fit_curve(args.think_s)
    dist.broadcast(torch.ones(1), src=args.rank)
dist.destroy_process_group()
