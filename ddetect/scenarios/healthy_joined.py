"""A new training thread for each epoch, which the main thread joins; after it one rank evaluates by itself."""

import threading
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


def evaluate(seconds: float) -> None:
    until = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < until:
            torch.ones(64, 64).matmul(torch.ones(64, 64))
            time.sleep(0.02)


args = training.arguments(epochs=4, steps=25, evaluate_s=5.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(args.epochs):
    worker = threading.Thread(target=train_epoch)
    worker.start()
    worker.join()
    if dist.get_rank() == args.rank:
        evaluate(args.evaluate_s)
dist.destroy_process_group()
