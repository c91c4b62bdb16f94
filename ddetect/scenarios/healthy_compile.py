"""The first step compiles for a while, on some ranks longer than on others; a new shape, later, for even longer."""

import time
from collections.abc import Callable

import torch
import torch._dynamo  # here, because it takes seconds
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def lower_graph(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
    """A backend that takes its time, without the compiler that a real one needs: pass after pass."""
    until = time.monotonic() + compile_s * (0.5 + (dist.get_rank() == args.rank) / 2)
    while time.monotonic() < until:
        fuse_kernels()
        plan_memory()
    return graph.forward


def fuse_kernels() -> None:
    until = time.monotonic() + 1.3
    while time.monotonic() < until:
        sum(range(1000))
        time.sleep(0.002)


def plan_memory() -> None:
    until = time.monotonic() + 0.9
    while time.monotonic() < until:
        sorted(range(1000), reverse=True)
        time.sleep(0.002)


args = training.arguments(steps=80, compile_s=12.0, again_at=50, again_s=20.0)
compile_s = args.compile_s
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
predict = torch.compile(nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), backend=lower_graph)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    if step == args.again_at:
        compile_s = args.again_s
    optimizer.zero_grad()
    predict(model(torch.ones(4 if step < args.again_at else 6, 16))).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
