"""Workers that persist over epochs; in a later epoch one of them hangs in its dataset."""

import time

import torch
import torch.distributed as dist
import training
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

args = training.arguments()
BATCHES = 5


class Shards(training.Numbers):
    epoch = -1  # of this worker: it counts how often it begins anew

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == training.my_rank():
            Shards.epoch += 1
        self.read_shard(index)
        return super().__getitem__(index)

    def read_shard(self, index: int) -> None:
        if training.my_rank() == args.rank and index == args.rank and Shards.epoch == args.at // BATCHES:
            time.sleep(training.LIFETIME_S)  # <- stuck here


dist.init_process_group("gloo")
dataset = Subset(Shards(), range(BATCHES * training.BATCH_SIZE * dist.get_world_size()))
sampler: DistributedSampler[torch.Tensor] = DistributedSampler(dataset, shuffle=False)
loader = DataLoader(
    dataset, training.BATCH_SIZE, sampler=sampler, num_workers=2, persistent_workers=True,
    worker_init_fn=training.die_with_parent,
)  # fmt: skip
training.train(args, lambda: None, (batch for _ in range(1_000_000) for batch in loader))
