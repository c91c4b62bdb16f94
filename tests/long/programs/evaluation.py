"""Every so many steps an evaluation of minutes, batch by batch: on all ranks, or on one while the others wait for it.

They wait in a barrier, or in the next step's all_reduce. A hang is a file lock, or a flag that is never there.
"""

import fcntl
import os
import tempfile
import time

import pace
import torch
import torch.distributed as dist
import training
from torch import nn


def read_labels() -> None:
    with open(labels.name) as again:
        fcntl.flock(again, fcntl.LOCK_EX)  # <- stuck here


def wait_for_flag(flag: str) -> None:
    while not os.path.exists(flag):  # <- stuck here
        time.sleep(1)  # <- stuck here


def score(model: nn.Module, seconds: float) -> None:
    with torch.no_grad():
        model(torch.rand(64, training.FEATURES))
    time.sleep(seconds)  # the rest of the batch is on a device


def evaluate(model: nn.Module, number: int) -> None:
    for batch in range(args.batches):
        if batch == args.batches // 3 and pace.strikes(number):
            if args.how == "flag":
                wait_for_flag("/nonexistent/go-on")
            read_labels()
        score(model, pace.uneven(args.batch_s, 0.3, batch))


args = pace.arguments(rounds=4, steps=15, step_s=3.0, batches=25, batch_s=6.0, where="all", how="flock")
labels = tempfile.NamedTemporaryFile()  # noqa: SIM115 - held while the job lives
fcntl.flock(labels, fcntl.LOCK_EX)
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    if args.where == "all" or pace.is_mine():
        evaluate(trainer.model.module, number)
    if args.where == "barrier":
        dist.barrier()
trainer.step()
trainer.leave()
