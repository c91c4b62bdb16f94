"""Steps of many seconds, no two alike: a layer waits for its device, in C, and one rank is late, then the other.

A hang is a lock that nobody lets go, a device that never answers, a flag that is never there, a loop without an end.
"""

import os
import threading
import time

import native
import pace
import torch
import training
from torch import nn

metrics = threading.Lock()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(training.FEATURES, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if args.how == "device" and pace.strikes(step):
            device.stuck()  # <- stuck here
        device.work(pace.uneven(args.step_s, args.spread, step), 0.02)
        return self.last(x)


def log_metrics() -> None:
    metrics.acquire()  # <- stuck here


def wait_for_flag(flag: str) -> None:
    while not os.path.exists(flag):  # <- stuck here
        time.sleep(1)  # <- stuck here


def balance_experts() -> None:
    while True:  # it never finds the balance, and takes a twentieth of a core
        until = time.monotonic() + 0.01  # <- stuck here
        while time.monotonic() < until:  # <- stuck here
            pass  # <- stuck here
        time.sleep(0.19)  # <- stuck here


args = pace.arguments(steps=40, step_s=12.0, spread=0.3, how="device")
device = native.build(args.disk)
trainer = training.Trainer(Layers())
for step in range(args.steps):
    if args.how == "lock" and pace.strikes(step):
        metrics.acquire()
        log_metrics()
    if args.how == "flag" and pace.strikes(step):
        wait_for_flag("/nonexistent/go-on")
    if args.how == "spin" and pace.strikes(step):
        balance_experts()
    trainer.step()
trainer.leave()
