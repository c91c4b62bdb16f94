"""One rank evaluates while the others wait for it, and its evaluation waits for a loader worker that is stuck."""

import time

import torch
import torch.distributed as dist
import training
from torch.utils.data import DataLoader

args = training.arguments()


class Validation(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 10 * training.BATCH_SIZE:
            self.read_label()
        return super().__getitem__(index)

    def read_label(self) -> None:
        time.sleep(training.LIFETIME_S)  # <- stuck here


def evaluate() -> float:
    batches = DataLoader(
        Validation(), training.BATCH_SIZE, num_workers=1, worker_init_fn=training.die_with_parent
    )
    with torch.no_grad():
        return sum(float(batch.mean()) for batch in batches)


dist.init_process_group("gloo")
training.train(args, evaluate)
