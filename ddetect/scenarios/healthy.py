"""A healthy job that often looks stuck: slow evaluations on one rank, a slow checkpoint, a slow first step.

It ends by itself with exit code 0 after `--steps` steps.
"""

import tempfile
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def evaluate(seconds: float) -> None:
    """It alone looks at the validation set, while the others wait for it in the next step."""
    until = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < until:
            torch.ones(64, 64).matmul(torch.ones(64, 64))
            time.sleep(0.02)


def save_checkpoint(seconds: float) -> None:
    """It alone writes to a slow file system: bytes move, steps do not."""
    with tempfile.TemporaryFile() as file:
        for _ in range(int(seconds / 0.1)):
            file.write(bytes(2**20))
            file.flush()
            time.sleep(0.1)


args = training.arguments(
    steps=110, evaluate_every=25, evaluate_s=6.0, checkpoint_at=60, checkpoint_s=8.0, first_step_times=20
)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, batch in zip(range(args.steps), training.loader(training.Numbers(), workers=1), strict=False):
    time.sleep(args.step_ms / 1000 * (args.first_step_times if step == 0 else 1))
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    if dist.get_rank() == args.rank and step % args.evaluate_every == args.evaluate_every - 1:
        evaluate(args.evaluate_s)
    if dist.get_rank() == args.rank and step == args.checkpoint_at:
        save_checkpoint(args.checkpoint_s)
dist.destroy_process_group()
