"""Training runs in a thread while the main thread serves HTTP; a loader worker that the thread forked is stuck."""

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.distributed as dist
import training

args = training.arguments()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        self.read_shard(index)
        return super().__getitem__(index)

    def read_shard(self, index: int) -> None:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            time.sleep(training.LIFETIME_S)  # <- stuck here


def train() -> None:
    dist.init_process_group("gloo")
    training.train(args, lambda: None, training.loader(Shards(), workers=2))


threading.Thread(target=train, daemon=True).start()
HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler).serve_forever()
