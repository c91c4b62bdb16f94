"""Two ranks are stuck at once, each on its own line; the others wait for both."""

import time

import torch
import torch.distributed as dist
import training


def ask_feature_store() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def wait_for_quota() -> None:
    while True:
        time.sleep(0.5)


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        ask_feature_store()
    if step == args.at and dist.get_rank() == (args.rank + 1) % dist.get_world_size():
        wait_for_quota()
    dist.all_reduce(torch.ones(8))
    step += 1
