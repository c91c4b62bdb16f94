"""The main thread starts a training thread and joins it; in one rank the thread waits for a service."""

import threading
import time

import torch.distributed as dist
import training


def fetch_rewards() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
worker = threading.Thread(target=training.train, args=(args, fetch_rewards))
worker.start()
worker.join()
dist.destroy_process_group()
