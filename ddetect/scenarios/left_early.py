"""One rank has less data than the others: it ends its loop, leaves its group and exports its results.

gloo keeps the others waiting, because the DDP model still holds the connections that destroy_process_group gave up.
"""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def export_results() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = args.at if dist.get_rank() == args.rank else 1_000_000
for _ in range(steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
export_results()
