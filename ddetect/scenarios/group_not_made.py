"""In mid-training everybody makes a new group; one rank does not come, and the others wait for it in new_group."""

import time

import torch
import torch.distributed as dist
import training


def plan_experts() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    dist.all_reduce(torch.ones(8))
    if step == args.at:
        if dist.get_rank() == args.rank:
            plan_experts()
        dist.new_group(group_desc="experts")
    step += 1
