"""Tensor times data parallel: one rank computes for ever, its row waits for it, the other rows wait for its column."""

import time

import torch
import torch.distributed as dist
import training
from torch.distributed.device_mesh import init_device_mesh


def attention() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
size = dist.get_world_size()
columns = 2 if size % 2 == 0 else size
mesh = init_device_mesh("cpu", (size // columns, columns), mesh_dim_names=("data", "tensor"))
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        attention()
    dist.all_reduce(torch.ones(8), group=mesh.get_group("tensor"))
    dist.all_reduce(torch.ones(8), group=mesh.get_group("data"))
    step += 1
