"""Waits in a chain: each rank waits for its neighbour in a group of the two, and the last neighbour is elsewhere."""

import time

import torch
import torch.distributed as dist
import training


def rebalance_experts() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
size = dist.get_world_size()
place = (dist.get_rank() - args.rank) % size  # the struck rank is the first link
links = [
    dist.new_group(sorted([(args.rank + n) % size, (args.rank + n + 1) % size]), group_desc=f"link_{n}")
    for n in range(size - 1)
]
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        rebalance_experts()
    for number in (place - 1, place):
        if 0 <= number < len(links):
            dist.all_reduce(torch.ones(8), group=links[number])
    step += 1
