"""Every rank posts its irecv before it computes; one rank does not get through the computation.

The struck rank has an open receive like all the others, but does not wait for it: its own line is what holds the job.
"""

import time

import torch
import torch.distributed as dist
import training


def compute_halo() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
step = 0
while True:
    incoming = torch.empty(8)
    receiving = dist.irecv(incoming, src=(rank - 1) % size)
    time.sleep(args.step_ms / 1000)
    if step == args.at and rank == args.rank:
        compute_halo()
    dist.all_reduce(torch.ones(8))
    dist.send(torch.ones(8), dst=(rank + 1) % size)
    receiving.wait()
    step += 1
