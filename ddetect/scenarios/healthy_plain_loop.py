"""A loop without optimizer, DataLoader or DDP: nothing but plain collectives tells that it moves."""

import time

import torch
import torch.distributed as dist
import training

args = training.arguments(rounds=14)
dist.init_process_group("gloo")
weights = torch.zeros(16)
for _ in range(args.rounds):
    until = time.monotonic() + args.step_ms / 20  # fifty times as long as a step
    while time.monotonic() < until:
        weights += 0.01
        time.sleep(0.001)
    dist.all_reduce(weights)
dist.destroy_process_group()
