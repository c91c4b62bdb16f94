"""A loader worker was forked while a thread of its rank held a lock: in the worker nobody will ever release it."""

import threading

import torch
import torch.distributed as dist
import training

args = training.arguments()
cache_lock = threading.Lock()


class Cached(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            self.look_up(index)
        return super().__getitem__(index)

    def look_up(self, index: int) -> None:
        with cache_lock:  # <- stuck here
            pass


dist.init_process_group("gloo")
cache_lock.acquire()  # as a background thread would hold it at the moment of the fork
batches = iter(training.loader(Cached(), workers=2))
cache_lock.release()
training.train(args, lambda: None, batches)
