"""Short epochs: at each change the workers end and new ones start, which here takes seconds."""

import time

import torch
import torch.distributed as dist
import training
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

args = training.arguments(epochs=5, start_s=3.0, batches=20)


def open_shards(worker: int) -> None:
    training.die_with_parent()
    time.sleep(args.start_s)


dist.init_process_group("gloo")
dataset = Subset(training.Numbers(), range(args.batches * training.BATCH_SIZE * dist.get_world_size()))
sampler: DistributedSampler[torch.Tensor] = DistributedSampler(dataset)
loader = DataLoader(dataset, training.BATCH_SIZE, sampler=sampler, num_workers=2, worker_init_fn=open_shards)
training.train(args, lambda: None, (batch for _ in range(args.epochs) for batch in loader))
dist.destroy_process_group()
