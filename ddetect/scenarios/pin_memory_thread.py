"""The thread that pins one rank's batches is stuck: its workers have delivered, and the rank waits for that thread.

The DataLoader starts this thread only where it sees an accelerator. torch lets Python play one: that is enough, and
nothing is computed on it.
"""

import time

import torch
import torch.distributed as dist
import training
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

args = training.arguments()


class Batch:
    """Samples of a type of their own; the DataLoader calls its `pin_memory` in the thread."""

    def __init__(self, samples: list[torch.Tensor]) -> None:
        self.samples = torch.stack(samples)

    def pin_memory(self) -> "Batch":
        if training.my_rank() == args.rank and int(self.samples[0, 0]) == args.at:
            time.sleep(training.LIFETIME_S)  # <- stuck here
        return self


class Numbered(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(training.batch_of(index)))


dist.init_process_group("gloo")
_setup_privateuseone_for_python_backend("pretended")
sampler: DistributedSampler[torch.Tensor] = DistributedSampler(Numbered(), shuffle=False)
loader = DataLoader(
    Numbered(), training.BATCH_SIZE, sampler=sampler, num_workers=2, pin_memory=True, collate_fn=Batch,
    worker_init_fn=training.die_with_parent,
)  # fmt: skip
training.train(args, lambda: None, (batch.samples.clamp(max=1.0) for batch in loader))
