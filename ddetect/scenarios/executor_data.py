"""An asyncio program trains in its default executor; one rank's loader worker, forked from there, is stuck."""

import asyncio
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
    dist.init_process_group("gloo")
    training.train(args, lambda: None, training.loader(Shards(), workers=2))
    dist.destroy_process_group()


async def main() -> None:
    await asyncio.get_running_loop().run_in_executor(None, fit)


asyncio.run(main())
