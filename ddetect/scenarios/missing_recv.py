"""One rank sends to its neighbour, which has gone on to all_reduce and does not receive."""

import time

import torch
import torch.distributed as dist
import training


def hand_over(receives: bool) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == args.rank:
        dist.send(torch.ones(2**20), dst=(rank + 1) % size)  # <- stuck here
    elif rank == (args.rank + 1) % size and receives:
        dist.recv(torch.empty(2**20), src=args.rank)


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    hand_over(receives=step != args.at)
    dist.all_reduce(torch.ones(8))
    step += 1
