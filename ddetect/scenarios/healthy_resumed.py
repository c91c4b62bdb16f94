"""The whole job is paused (as by a batch system that needs the machine) and goes on later: nobody is to blame."""

import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import training
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PAUSER = """
import os, signal, sys, time
ranks = [int(pid) for pid in sys.argv[2:]]
for pid in ranks: os.kill(pid, signal.SIGSTOP)
time.sleep(float(sys.argv[1]))
for pid in ranks: os.kill(pid, signal.SIGCONT)
"""


def pause_everybody(pids: list[int]) -> None:
    words = [str(args.pause_s), *map(str, pids)]
    subprocess.Popen([sys.executable, "-S", "-E", "-c", PAUSER, *words], start_new_session=True)


args = training.arguments(steps=120, pause_at=60, pause_s=10.0)
dist.init_process_group("gloo")
pids = [0] * dist.get_world_size()
dist.all_gather_object(pids, os.getpid())
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(args.steps):
    if step == args.pause_at and dist.get_rank() == 0:
        pause_everybody(pids)
    time.sleep(args.step_ms / 1000)
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
dist.destroy_process_group()
