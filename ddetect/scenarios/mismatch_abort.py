"""One rank reduces a larger tensor, and gloo aborts who receives too much: the receiver called what it should.

A message longer than the receiver's buffer ends its process with SIGABRT, without a Python exception; its peers lose
their connection to it. Sixteen times as many elements are larger in every segment, so nobody waits for a segment
that is never sent.
"""

import time

import torch
import torch.distributed as dist
import training


def average_scores(struck: bool) -> None:
    scores = torch.ones(64 * dist.get_world_size() * (16 if struck else 1))
    dist.all_reduce(scores)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    average_scores(struck=step == args.at and dist.get_rank() == args.rank)
    step += 1
