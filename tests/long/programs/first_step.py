"""The first step takes ten minutes: something is compiled, in one call into C, or in threads of C; then all is fast."""

import time

import native
import pace
import torch
import training
from torch import nn


class Compiled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last, self.ready = nn.Linear(training.FEATURES, 4), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.ready:
            compile_graph()
            self.ready = True
        return self.last(x)


def compile_graph() -> None:
    strikes, seconds = pace.strikes(0), pace.uneven(args.compile_s, 0.2, 0)
    if args.how == "threads":
        device.work_in_threads(-1.0 if strikes else seconds, 0.02, 3)  # <- stuck here
    elif strikes:
        device.stuck()  # <- stuck here
    else:
        device.work(seconds, 0.04)


args = pace.arguments(compile_s=600.0, steps=60, step_s=2.0, how="call")
device = native.build(args.disk)
trainer = training.Trainer(Compiled())
for step in range(args.steps):
    trainer.step()
    time.sleep(pace.uneven(args.step_s, 0.2, step))
trainer.leave()
