"""One rank has less data and reaches the end of its program, where a thread that is no daemon keeps it alive."""

import threading
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def report_usage() -> None:
    time.sleep(training.LIFETIME_S)


args = training.arguments()
dist.init_process_group("gloo")
threading.Thread(target=report_usage, name="usage").start()
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = args.at if dist.get_rank() == args.rank else 1_000_000
for _ in range(steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
