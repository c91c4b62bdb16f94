"""Only one rank saves, and the barrier stands inside its `if`: the others are in the next step already."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save_checkpoint(model: nn.Module) -> None:
    torch.save(model.state_dict(), "/dev/null")
    dist.barrier()  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    if dist.get_rank() == args.rank and step == args.at:
        save_checkpoint(model)
