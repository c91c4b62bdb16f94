"""All ranks evaluate through a DataLoader whose workers take many seconds for an example; then they train on."""

import threading
import time

import pace
import torch
import training
from torch.utils.data import DataLoader, Dataset


class Films(Dataset):
    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return args.examples

    def __getitem__(self, index: int) -> torch.Tensor:
        return decode_film(self.number, index)


def decode_film(number: int, index: int) -> torch.Tensor:
    if index == args.examples // 2 and pace.strikes(number):
        threading.Event().wait()  # <- stuck here
    time.sleep(pace.uneven(args.example_s, 0.3, index))
    return torch.rand(training.FEATURES)


def evaluate(number: int) -> None:
    loader = DataLoader(Films(number), 2, num_workers=2, worker_init_fn=pace.die_with_parent)
    for batch in loader:
        with torch.no_grad():
            trainer.model.module(batch)


args = pace.arguments(rounds=3, steps=15, step_s=3.0, examples=24, example_s=12.0)
trainer = training.Trainer()
for number in range(args.rounds):
    for step in range(args.steps):
        time.sleep(pace.uneven(args.step_s, 0.2, step))
        trainer.step()
    evaluate(number)
trainer.step()
trainer.leave()
