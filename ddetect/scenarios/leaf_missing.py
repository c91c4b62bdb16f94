"""One leaf of a gather does not come; the root waits in the gather, the other leaves wait for the root."""

import time

import torch
import torch.distributed as dist
import training


def score_samples() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def gather_scores(root: int) -> None:
    scores = [torch.empty(8) for _ in range(dist.get_world_size())] if dist.get_rank() == root else None
    dist.gather(torch.ones(8), scores, dst=root)


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        score_samples()
    gather_scores(root=(args.rank + 1) % dist.get_world_size())
    dist.all_reduce(torch.ones(8))
    step += 1
