"""Two ranks that share two groups enter them in opposite order; the other ranks wait for both."""

import time

import torch
import torch.distributed as dist
import training


def reduce_in(groups: list[dist.ProcessGroup]) -> None:
    for group in groups:
        dist.all_reduce(torch.ones(8), group=group)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
pair = sorted([args.rank, (args.rank + 1) % dist.get_world_size()])
tensor_group = dist.new_group(pair, group_desc="tensor_parallel")
data_group = dist.new_group(pair, group_desc="data_parallel")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    dist.all_reduce(torch.ones(8))
    if dist.get_rank() in pair:
        swapped = step == args.at and dist.get_rank() == args.rank
        reduce_in([data_group, tensor_group] if swapped else [tensor_group, data_group])
    step += 1
