"""The job that is looked at: rank 0 has stopped, all others wait for it; loader workers have nothing to do.

Usage: stuck_job.py FOLDER WORKERS THREADS. Each rank leaves a file in FOLDER when it stands still; the last one has
THREADS more threads, all idle.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    folder, workers, threads = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    batches = iter(DataLoader(TensorDataset(torch.zeros(100_000, 1)), batch_size=10, num_workers=workers))
    next(batches)
    dist.all_reduce(torch.ones(1))
    if rank == world - 1:
        for _ in range(threads):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    (folder / str(rank)).touch()
    if rank == 0:
        threading.Event().wait()
    dist.all_reduce(torch.ones(1))
