"""One rank takes another branch and leaves a layer out: DDP's bucket never fills there, and its next forward raises."""

import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, batch: torch.Tensor, skip_head: bool) -> torch.Tensor:
        return self.body(batch) if skip_head else self.head(self.body(batch))


def predict(skip_head: bool) -> torch.Tensor:
    return model(torch.ones(4, 16), skip_head)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
model = DistributedDataParallel(TwoHeads())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    predict(skip_head=step == args.at and dist.get_rank() == args.rank).pow(2).mean().backward()
    optimizer.step()
