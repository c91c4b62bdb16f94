"""The thread that prefetches for one rank died of an exception; its queue stays empty, and the rank waits for it."""

import queue
import threading

import training

batches: queue.Queue[int] = queue.Queue()


def prefetch() -> None:
    raise OSError("shard 17 is truncated")


def next_batch() -> int:
    threading.Thread(target=prefetch, name="prefetch", daemon=True).start()
    return batches.get()  # <- stuck here


training.run(next_batch)
