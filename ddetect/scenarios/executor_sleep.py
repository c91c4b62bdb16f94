"""An asyncio program trains through `asyncio.to_thread`; in one rank the function in that thread does not go on."""

import asyncio
import time

import torch.distributed as dist
import training


def score_samples() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


async def main() -> None:
    args = training.arguments()
    dist.init_process_group("gloo")
    await asyncio.to_thread(training.train, args, score_samples)
    dist.destroy_process_group()


asyncio.run(main())
