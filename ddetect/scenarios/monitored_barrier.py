"""The others wait in monitored_barrier, which no recorder sees, for a rank that does not come."""

import datetime
import time

import torch.distributed as dist
import training


def write_summary() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
step = 0
while True:
    time.sleep(args.step_ms / 1000)
    if step == args.at and dist.get_rank() == args.rank:
        write_summary()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=training.LIFETIME_S))
    step += 1
