"""One rank has fewer batches than the others: it ends its epoch and waits at the barrier behind it."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def end_epoch() -> None:
    dist.barrier()  # <- stuck here


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
end_epoch()
