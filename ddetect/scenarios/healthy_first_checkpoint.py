"""The first checkpoint that this job ever writes takes very long on one rank, and nobody could have learned that."""

import os
import tempfile
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save_checkpoint(model: nn.Module, seconds: float) -> None:
    """Shard by shard to a slow disk: bytes move, steps do not."""
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            torch.save(
                {"model": model.state_dict(), "moments": torch.zeros(2**18)}, os.path.join(folder, "shard.pt")
            )
            time.sleep(0.2)


args = training.arguments(steps=100, checkpoint_at=70, checkpoint_s=18.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    if step == args.checkpoint_at:
        if dist.get_rank() == args.rank:
            save_checkpoint(model, args.checkpoint_s)
        dist.barrier()
dist.destroy_process_group()
