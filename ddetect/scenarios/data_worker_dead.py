"""A DataLoader worker of one rank is killed (as by the OOM killer); torch raises in that rank, the job stops."""

import os
import signal

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Shards(), workers=2))
dist.destroy_process_group()
