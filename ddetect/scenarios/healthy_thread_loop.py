"""Training in a thread while the main thread serves an event loop until the thread stops it; one rank evaluates."""

import asyncio
import threading
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def evaluate(seconds: float) -> None:
    until = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < until:
            torch.ones(64, 64).matmul(torch.ones(64, 64))
            time.sleep(0.02)


def train() -> None:
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = training.loader(training.Numbers(), workers=1)
    for step, batch in zip(range(args.steps), batches, strict=False):
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        if dist.get_rank() == args.rank and step % args.evaluate_every == args.evaluate_every - 1:
            evaluate(args.evaluate_s)
    loop.call_soon_threadsafe(loop.stop)


args = training.arguments(steps=90, evaluate_every=25, evaluate_s=6.0)
dist.init_process_group("gloo")
loop = asyncio.new_event_loop()
threading.Thread(target=train, name="training").start()
loop.run_forever()
dist.destroy_process_group()
