"""A model sharded with FSDP2: one rank does not come to the next forward, the others wait for it in all_gather."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def sample_prompts() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        sample_prompts()
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
