"""A loader worker of one rank is stopped (SIGSTOP); its rank waits for a batch, the others wait for the rank."""

import os
import signal

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            self.suspend()
        return super().__getitem__(index)

    def suspend(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)  # <- stuck here


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Shards(), workers=2))
