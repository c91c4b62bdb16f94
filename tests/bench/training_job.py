"""The job that is measured: DDP steps as fast as they come; rank 0 writes its median step time in seconds to a file."""

from __future__ import annotations

import itertools
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    target, steps, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(256, 256) for _ in range(4))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = DataLoader(TensorDataset(torch.randn(32 * min(steps, 1500), 256)), batch_size=32)
    took = []
    for (batch,) in itertools.islice(itertools.chain.from_iterable(itertools.repeat(batches)), steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        time.sleep(pause_s)
        took.append(time.perf_counter() - began)
    if dist.get_rank() == 0 and target != "-":
        with open(target, "w") as file:
            file.write(str(statistics.median(took[len(took) // 10 :])))
    dist.destroy_process_group()
