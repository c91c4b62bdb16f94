"""The main thread joins a training thread; one rank's thread calls barrier where the others call all_reduce."""

import threading
import time

import torch
import torch.distributed as dist
import training


class Trainer(threading.Thread):
    def run(self) -> None:
        for step in range(1_000_000):
            time.sleep(args.step_ms / 1000)
            self.share_metrics(step == args.at and dist.get_rank() == args.rank)

    def share_metrics(self, struck: bool) -> None:
        if struck:
            dist.barrier()  # <- stuck here
        else:
            dist.all_reduce(torch.ones(8))


args = training.arguments()
dist.init_process_group("gloo")
trainer = Trainer(name="trainer", daemon=True)
trainer.start()
trainer.join()
