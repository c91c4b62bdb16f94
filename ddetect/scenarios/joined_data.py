"""The main thread joins a training thread, a second at a time; a loader worker that the thread forked is stuck."""

import threading
import time

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        self.read_shard(index)
        return super().__getitem__(index)

    def read_shard(self, index: int) -> None:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            time.sleep(training.LIFETIME_S)  # <- stuck here


def fit() -> None:
    training.train(args, lambda: None, training.loader(Shards(), workers=2))


dist.init_process_group("gloo")
worker = threading.Thread(target=fit, daemon=True)
worker.start()
while worker.is_alive():  # so that ctrl-C is heard
    worker.join(1.0)
dist.destroy_process_group()
