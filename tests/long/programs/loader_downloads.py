"""Loader workers fetch their examples from a store over a slow line: a step comes every half a minute, or minute."""

import http.client

import pace
import torch
import training
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset):
    def __len__(self) -> int:
        return args.steps

    def __getitem__(self, index: int) -> torch.Tensor:
        return fetch(index)


def fetch(index: int) -> torch.Tensor:
    size = int(args.rate * pace.uneven(args.example_s, 0.3, index))
    stop_at = 1 if pace.strikes(index) else size + 1
    connection = http.client.HTTPConnection(args.store)
    connection.request("GET", f"/slow?rate={args.rate}&bytes={size}&silent_after={stop_at}")
    connection.getresponse().read()  # <- stuck here
    return torch.rand(training.FEATURES)


args = pace.arguments(steps=24, example_s=50.0, rate=2000)
trainer = training.Trainer()
loader = DataLoader(Remote(), None, num_workers=2, worker_init_fn=pace.die_with_parent, prefetch_factor=1)
for batch in loader:
    trainer.step(batch[None])
trainer.leave()
