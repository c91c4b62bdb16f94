"""One rank believes that it is the root of a broadcast; the others believe in another."""

import time

import torch
import torch.distributed as dist
import training


def share_weights(root: int) -> None:
    dist.broadcast(torch.ones(8), src=root)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
agreed = (args.rank + 1) % dist.get_world_size()
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    dist.all_reduce(torch.ones(8))
    share_weights(dist.get_rank() if step == args.at and dist.get_rank() == args.rank else agreed)
    step += 1
