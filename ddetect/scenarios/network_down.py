"""The network dies in mid-training: every rank is in the collective and none leaves it.

Run it behind `in_own_network.py`: one rank takes that network's loopback interface down.
"""

import time

import in_own_network
import torch
import torch.distributed as dist
import training


def sum_losses() -> None:
    dist.all_reduce(torch.ones(2**16))


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        in_own_network.set_loopback(up=False)
    sum_losses()
    step += 1
