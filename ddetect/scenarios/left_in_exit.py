"""One rank has less data than the others and reaches the end of its program, where an exit handler uploads logs."""

import atexit
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def upload_logs() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
atexit.register(upload_logs)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = args.at if dist.get_rank() == args.rank else 1_000_000
for _ in range(steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
