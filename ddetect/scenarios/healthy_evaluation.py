"""Every rank evaluates now and then, for much longer than a step: computing, with batches from a loader of its own."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def evaluate(model: nn.Module, seconds: float) -> None:
    until = time.monotonic() + seconds
    with torch.no_grad():
        for batch in DataLoader(training.Numbers(), training.BATCH_SIZE):
            model(batch).argmax(dim=1)
            torch.ones(128, 128).matmul(torch.ones(128, 128))
            if time.monotonic() > until:
                break


args = training.arguments(steps=80, evaluate_every=50, evaluate_s=20.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
    if step % args.evaluate_every == args.evaluate_every - 1:
        evaluate(model.module, args.evaluate_s)
dist.destroy_process_group()
