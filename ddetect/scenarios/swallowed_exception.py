"""One rank raises in its step, a `try` around the step swallows it, and the rank is one call ahead."""

import time

import torch
import torch.distributed as dist
import training


def take_step(fails: bool) -> None:
    if fails:
        raise ValueError("record 17 has 3 fields, expected 4")
    dist.all_reduce(torch.ones(8))


def share_best_loss() -> None:
    dist.broadcast(torch.ones(8), src=0)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    try:
        take_step(fails=step == args.at and dist.get_rank() == args.rank)
    except ValueError:
        pass
    share_best_loss()
    step += 1
