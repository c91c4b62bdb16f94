"""One rank calls barrier where the others call all_reduce: an `if` around a collective."""

import time

import torch
import torch.distributed as dist
import training


def share_metrics(struck: bool) -> None:
    if struck:
        dist.barrier()  # <- stuck here
    else:
        dist.all_reduce(torch.ones(8))


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    share_metrics(struck=step == args.at and dist.get_rank() == args.rank)
    step += 1
