"""An evaluation on one rank that takes longer than anybody would wait, and that says so: `ddetect_probe.pause`."""

import time

import ddetect_probe
import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def evaluate(seconds: float) -> None:
    with ddetect_probe.pause("eval"):
        time.sleep(seconds)


args = training.arguments(steps=90, evaluate_at=60, evaluate_s=25.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    if step == args.evaluate_at and dist.get_rank() == args.rank:
        evaluate(args.evaluate_s)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
