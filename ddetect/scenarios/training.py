"""What the programs in this folder share, as a team's own package would: arguments, data, a model, a loop.

Enters: the command line (which rank is struck, at which step, how long a step takes) and torchrun's environment.
Leaves: a small DDP job. Never here: ddetect, and a program that outlives ten minutes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

LIFETIME_S = 600
BATCH_SIZE = 4
_PR_SET_PDEATHSIG = 1


def arguments(**options: float) -> argparse.Namespace:
    """Read the command line, and make sure that this process ends by itself whatever happens to it.

    `options` are what one program has beside the common ones, with their defaults.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=2, help="the rank that is struck")
    parser.add_argument("--at", type=int, default=40, help="the step at which it is struck")
    parser.add_argument("--step-ms", type=int, default=50, help="how long a step takes")
    for name, default in options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    # The alarm needs no GIL. A stopped process does not see it, hence the second line: it goes with its parent.
    signal.alarm(LIFETIME_S)
    die_with_parent()
    torch.set_num_threads(1)
    return parser.parse_args()


def die_with_parent(_worker: int = 0) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def my_rank() -> int:
    return int(os.environ["RANK"])


class Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 200_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(index % 7))


def loader(dataset: Dataset[torch.Tensor], workers: int = 0) -> DataLoader[torch.Tensor]:
    sampler: DistributedSampler[torch.Tensor] = DistributedSampler(dataset, shuffle=False)
    return DataLoader(
        dataset, BATCH_SIZE, sampler=sampler, num_workers=workers, worker_init_fn=die_with_parent
    )


def batch_of(index: int) -> int:
    """The batch to which a dataset index belongs, with an unshuffled DistributedSampler."""
    return index // int(os.environ["WORLD_SIZE"]) // BATCH_SIZE


def train(
    args: argparse.Namespace,
    when_struck: Callable[[], object],
    data: Iterable[torch.Tensor] | None = None,
    steps: int = 1_000_000,
) -> None:
    """Train; the struck rank calls `when_struck` at its step, between the data and the forward pass."""
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in zip(range(steps), data or loader(Numbers()), strict=False):
        if step == args.at and my_rank() == args.rank:
            when_struck()
        time.sleep(args.step_ms / 1000)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()


def run(when_struck: Callable[[], object]) -> None:
    """The usual program: join, train, leave."""
    join_and_train(arguments(), when_struck)


def join_and_train(args: argparse.Namespace, when_struck: Callable[[], object]) -> None:
    """The same with arguments that the program has changed."""
    dist.init_process_group("gloo")
    train(args, when_struck)
    dist.destroy_process_group()
