"""Ranks started by mp.spawn, of which one leaves with os._exit(3): no exception, no signal, and its parent waits for it at
once, so that nobody else is left to ask what it exited with.
"""

import os
import socket

import torch.distributed as dist
import torch.multiprocessing as mp
import training


def give_up() -> None:
    os._exit(3)


def main(rank: int, port: int, size: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    args = training.arguments(world_size=size)
    dist.init_process_group("gloo")
    training.train(args, give_up)


if __name__ == "__main__":
    size = training.arguments(world_size=4).world_size
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(main, (port, size), nprocs=size)
