"""A loader worker opens a named pipe as if it were a shard, and waits for a writer that never comes."""

import os
import tempfile

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            self.open_shard()
        return super().__getitem__(index)

    def open_shard(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shard")
            os.mkfifo(path)
            pipe = os.open(path, os.O_PATH)  # so that nothing stays behind when this process is killed
        with open(f"/proc/self/fd/{pipe}", "rb"):  # <- stuck here
            pass


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Shards(), workers=2))
dist.destroy_process_group()
