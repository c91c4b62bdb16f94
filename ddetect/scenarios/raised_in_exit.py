"""One rank dies of an exception, and does not get out: a thread that is no daemon keeps its process alive."""

import threading
import time

import torch.distributed as dist
import training


def parse_record() -> None:
    raise ValueError("record 17 has 3 fields, expected 4")  # <- stuck here


def watch_directory() -> None:
    time.sleep(training.LIFETIME_S)


args = training.arguments()
dist.init_process_group("gloo")
threading.Thread(target=watch_directory, name="watcher").start()
training.train(args, parse_record)
