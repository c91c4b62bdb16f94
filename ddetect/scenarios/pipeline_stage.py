"""A pipeline of stages that pass activations on with send and recv; one stage does not get through its part."""

import time

import torch
import torch.distributed as dist
import training


def run_layers() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def pass_on(struck: bool) -> None:
    """Receive from the stage before, compute, send to the stage after; the first stage closes the ring."""
    rank, size = dist.get_rank(), dist.get_world_size()
    activations = torch.ones(8)
    if rank > 0:
        dist.recv(activations, src=rank - 1)
    if struck:
        run_layers()
    dist.send(activations, dst=(rank + 1) % size)
    if rank == 0:
        dist.recv(activations, src=size - 1)


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    pass_on(struck=step == args.at and dist.get_rank() == args.rank)
    step += 1
