"""Each step of an asyncio program runs in an executor of several threads; one rank alone gathers from everybody."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save_sharded() -> None:
    shards = torch.empty(68 * dist.get_world_size())
    dist.all_gather_into_tensor(shards, torch.ones(68))  # <- stuck here


def train_step(step: int) -> None:
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    if step == args.at and dist.get_rank() == args.rank:
        save_sharded()


async def main() -> None:
    with ThreadPoolExecutor(4, thread_name_prefix="trainer") as pool:
        for step in range(1_000_000):
            await asyncio.get_running_loop().run_in_executor(pool, train_step, step)


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
asyncio.run(main())
