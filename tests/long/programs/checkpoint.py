"""Checkpoints of minutes to a slow disk, by one rank; the others wait in a barrier.

The disk takes every piece only when the one before is on it (fsync), or is a pipe that somebody empties slowly.
"""

import io
import os
import shutil
import tempfile
import time

import pace
import torch
import torch.distributed as dist
import training

PIECE = 8 << 10
LEAST = 100_000  # more than a pipe holds


def save_to_disk(data: io.BytesIO, strikes: bool) -> None:
    if strikes:
        save_to_pipe(data, strikes)
    with tempfile.TemporaryFile(buffering=0) as file:
        while piece := data.read(PIECE):
            file.write(piece)
            os.fsync(file.fileno())
            time.sleep(PIECE / args.rate)  # what the disk lets us wait for


def save_to_pipe(data: io.BytesIO, strikes: bool) -> None:
    name = "dead" if strikes else "slow"
    with open(os.path.join(args.disk, name), "wb", buffering=0) as pipe:
        shutil.copyfileobj(data, pipe, PIECE)  # <- stuck here


def save_checkpoint(number: int) -> None:
    size = max(int(args.rate * pace.uneven(args.save_s, 0.2, number)), LEAST)
    weights = torch.rand(size // 4)
    data = io.BytesIO()
    torch.save(weights, data)
    data.seek(0)
    (save_to_pipe if args.how == "pipe" else save_to_disk)(data, pace.strikes(number))


args = pace.arguments(rounds=3, steps=20, step_s=3.0, save_s=150.0, rate=40_000, how="fsync")
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    if pace.is_mine():
        save_checkpoint(number)
    dist.barrier()
trainer.leave()
