"""One rank is stopped and goes on after a while: an incident opens, names it, and closes when the job moves again."""

import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WAKER = """
import os, signal, sys, time
os.kill(int(sys.argv[1]), signal.SIGSTOP)
time.sleep(float(sys.argv[2]))
os.kill(int(sys.argv[1]), signal.SIGCONT)
"""


def suspend() -> None:
    command = [sys.executable, "-S", "-E", "-c", WAKER, str(os.getpid()), str(args.pause_s)]
    waker = subprocess.Popen(command)
    waker.wait()  # <- stuck here


args = training.arguments(steps=120, pause_s=12.0)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        suspend()
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
