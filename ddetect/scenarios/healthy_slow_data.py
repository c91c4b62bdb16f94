"""Data comes slowly, and it comes: after a fast start a batch takes seconds, and then even longer."""

import time

import torch
import torch.distributed as dist
import training

args = training.arguments(steps=33, slow_from=30, fetch_s=7.0, slowest_s=20.0)


class Remote(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if (batch := training.batch_of(index)) >= args.slow_from:
            seconds = args.fetch_s if batch == args.slow_from else args.slowest_s
            time.sleep(seconds / training.BATCH_SIZE)
        return super().__getitem__(index)


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Remote(), workers=1), steps=args.steps)
dist.destroy_process_group()
