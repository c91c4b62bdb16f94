"""One rank compiles its model in mid-training, and the compiler does not come back; the others wait for that rank."""

import time
from collections.abc import Callable

import torch
import torch._dynamo  # here, because it takes seconds
import torch.distributed as dist
import training
from torch import nn


def lower_graph(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
    time.sleep(training.LIFETIME_S)  # <- stuck here
    return graph.forward


def recompile() -> None:
    torch.compile(nn.Linear(16, 4), backend=lower_graph)(torch.ones(4, 16))


args = training.arguments()
dist.init_process_group("gloo")
training.train(args, recompile)
