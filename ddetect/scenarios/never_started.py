"""A job of N ranks of which one was never started: plain processes, no torchrun (a node that did not come up).

Without RANK in its environment this program plays the launcher; with it, a rank.
"""

import argparse
import os
import socket
import subprocess
import sys


def start_all_but_one() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--world-size", type=int, default=4)
    options, _ = parser.parse_known_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(options.world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(options.world_size)
        if rank != options.rank
    ]
    sys.exit(max(abs(rank.wait()) for rank in ranks))


def main() -> None:
    import torch.distributed as dist
    import training

    args = training.arguments()
    dist.init_process_group("gloo")
    training.train(args, lambda: None)


if "RANK" in os.environ:
    main()
else:
    start_all_but_one()
