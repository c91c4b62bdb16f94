"""Data comes slowly, and it comes: after a fast start every batch takes seconds, longer than any step before."""

import time

import torch
import torch.distributed as dist
import training

args = training.arguments(steps=36, slow_from=30, fetch_s=4.0)


class Remote(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.batch_of(index) >= args.slow_from:
            time.sleep(args.fetch_s / training.BATCH_SIZE)
        return super().__getitem__(index)


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Remote(), workers=1), steps=args.steps)
dist.destroy_process_group()
