"""`python stuck_worker.py`: one process trains, and a worker of its DataLoader falls asleep in the middle of a shard.

Unlike the workers of the scenarios this one does not go with its parent, as nobody's does: asleep it does not notice
that it is alone, and keeps stdout open. It ends by itself after five minutes.
"""

import signal
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LIFETIME_S = 300
STUCK_AT = 160


class Shards(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == STUCK_AT:
            read_shard()
        return torch.full((16,), float(index % 7))


def read_shard() -> None:
    time.sleep(LIFETIME_S)


def limit_life(_worker: int = 0) -> None:
    signal.alarm(LIFETIME_S)  # not inherited: each process asks for its own


def main() -> None:
    limit_life()
    torch.set_num_threads(1)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(Shards(), 4, num_workers=2, worker_init_fn=limit_life)):
        time.sleep(0.05)
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
