"""The first step compiles for a long while on every rank, on some longer than on others; then steps are fast."""

import time
from collections.abc import Callable

import torch
import torch._dynamo  # here, because it takes seconds
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def lower_graph(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
    """A backend that takes its time, without the compiler that a real one needs."""
    until = time.monotonic() + args.compile_s * (1 + dist.get_rank() % 2)
    while time.monotonic() < until:
        sum(range(1000))
        time.sleep(0.002)
    return graph.forward


args = training.arguments(steps=80, compile_s=6.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
predict = torch.compile(nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), backend=lower_graph)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(args.steps):
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    predict(model(torch.ones(4, 16))).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
