"""An asyncio program trains epoch after epoch in an executor; between two, one rank awaits a slow upload."""

import asyncio
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train_epoch() -> None:
    for _, batch in zip(range(args.steps), training.loader(training.Numbers(), workers=1), strict=False):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


async def upload(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def main() -> None:
    for _ in range(args.epochs):
        await asyncio.get_running_loop().run_in_executor(None, train_epoch)
        if dist.get_rank() == args.rank:
            await upload(args.upload_s)


args = training.arguments(epochs=4, steps=25, upload_s=5.0)
dist.init_process_group("gloo")
model: nn.Module = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
asyncio.run(main())
dist.destroy_process_group()
