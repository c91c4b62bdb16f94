"""The root of a broadcast does not come: it still prepares what the others wait to receive."""

import time

import torch
import torch.distributed as dist
import training


def prepare_weights() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        prepare_weights()
    dist.broadcast(torch.ones(8), src=args.rank)
    dist.barrier()
    step += 1
