"""One rank never calls init_process_group; the others wait for it there."""

import time

import torch.distributed as dist
import training


def wait_for_license() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
if training.my_rank() == args.rank:
    wait_for_license()
dist.init_process_group("gloo")
training.train(args, lambda: None)
