"""A DataLoader without workers hangs in one rank's dataset; the other ranks wait in all_reduce."""

import time

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        self.decode_image(index)
        return super().__getitem__(index)

    def decode_image(self, index: int) -> None:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            time.sleep(training.LIFETIME_S)  # <- stuck here


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Shards(), workers=0))
dist.destroy_process_group()
