"""torchrun starts the job again after one rank raised; in the second attempt another rank gets stuck."""

import os
import time

import torch.distributed as dist
import training


def parse_record() -> None:
    raise ValueError("record 17 has 3 fields, expected 4")


def warm_cache() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


def join(attempt: str) -> None:
    """torchrun keeps its store from attempt to attempt; without a prefix gloo would dial ranks that are dead."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    rank, size = training.my_rank(), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=dist.PrefixStore(attempt, store), rank=rank, world_size=size)


args = training.arguments()
join(os.environ["TORCHELASTIC_RESTART_COUNT"])
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    args.rank = (args.rank + 1) % dist.get_world_size()
    training.train(args, parse_record)
training.train(args, warm_cache)
