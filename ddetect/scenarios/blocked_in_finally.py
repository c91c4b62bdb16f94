"""One rank raises; the `finally` around its loop waits for a thread that never ends, so nobody hears of it."""

import queue
import threading

import torch.distributed as dist
import training

records: queue.Queue[bytes] = queue.Queue()
prefetcher = threading.Thread(target=records.get, name="prefetcher", daemon=True)


def parse_record() -> None:
    raise ValueError("record 17 has 3 fields, expected 4")


def stop_prefetching() -> None:
    prefetcher.join()  # <- stuck here


args = training.arguments()
dist.init_process_group("gloo")
prefetcher.start()
try:
    training.train(args, parse_record)
finally:
    stop_prefetching()
