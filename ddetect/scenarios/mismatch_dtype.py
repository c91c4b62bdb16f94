"""One rank reduces float32 where the others reduce float16.

Small tensors make gloo abort the receiver (its message is too long). From a million elements per rank on, gloo cuts
both into segments of one megabyte, of which the struck rank has twice as many: it waits for the rest.
"""

import time

import torch
import torch.distributed as dist
import training

SEGMENT_ELEMENTS = 2**20


def reduce_gradients(struck: bool) -> None:
    dtype = torch.float32 if struck else torch.float16
    dist.all_reduce(torch.ones(dist.get_world_size() * SEGMENT_ELEMENTS, dtype=dtype))  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    dist.all_reduce(torch.ones(8))
    if step == args.at:
        reduce_gradients(struck=dist.get_rank() == args.rank)
    step += 1
