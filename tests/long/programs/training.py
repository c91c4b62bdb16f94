"""What the torch programs in this folder share, as a team's own package would: a model, a group, a step.

Enters: torchrun's environment. Leaves: a small DDP job on gloo. Never here: ddetect, arguments (pace.py).
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES = 32


class Trainer:
    """A model that all ranks improve together."""

    def __init__(self, model: nn.Module | None = None) -> None:
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.model = DistributedDataParallel(model or nn.Linear(FEATURES, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def backward(self, batch: torch.Tensor | None = None) -> None:
        """Forward and backward alone; inside `no_sync` nobody else is waited for."""
        batch = torch.rand(8, FEATURES) if batch is None else batch
        self.model(batch).pow(2).mean().backward()

    def step(self, batch: torch.Tensor | None = None) -> None:
        """One step with everybody."""
        self.optimizer.zero_grad()
        self.backward(batch)
        self.optimizer.step()

    def leave(self) -> None:
        dist.destroy_process_group()
