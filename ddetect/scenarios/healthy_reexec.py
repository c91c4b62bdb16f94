"""Every rank executes itself again, to have an environment that must be there before its libraries are loaded.

One does so again after a few steps: what its page said before is no longer true, though its pid is the same.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import training
from torch import nn


def execute_again(stage: str) -> None:
    os.environ["REEXECUTED"] = stage
    os.execv(sys.executable, [sys.executable, *sys.argv])


args = training.arguments(steps=120)
if "REEXECUTED" not in os.environ:
    execute_again("to set LD_LIBRARY_PATH")
if args.rank == training.my_rank() and os.environ["REEXECUTED"] == "to set LD_LIBRARY_PATH":
    warm = nn.Linear(16, 4)  # by now its page counts steps
    tuner = torch.optim.SGD(warm.parameters(), lr=0.01)
    for _ in range(20):
        warm(torch.ones(4, 16)).pow(2).mean().backward()
        tuner.step()
        time.sleep(args.step_ms / 1000)
    execute_again("after a warm-up")
dist.init_process_group("gloo")
training.train(args, lambda: None, steps=args.steps)
dist.destroy_process_group()
