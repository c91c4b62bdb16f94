"""One rank reduces a tensor of another shape.

What gloo does with it depends on its segments (at least two per rank): a message longer than the receiver's buffer
aborts the receiver, while a segment that is never sent is waited for. One element per segment on both sides, and
twice as many segments on one, is waited for: the struck rank waits in this call, the others in the next.
"""

import time

import torch
import torch.distributed as dist
import training


def average_scores(struck: bool) -> None:
    scores = torch.ones(dist.get_world_size() * (2 if struck else 1))
    dist.all_reduce(scores)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    average_scores(struck=step == args.at and dist.get_rank() == args.rank)
    step += 1
