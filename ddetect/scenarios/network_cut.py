"""Two nodes, and the cable between them is pulled: every rank is in the collective and none leaves it.

A node is a network namespace; a pair of virtual interfaces is the cable. Without RANK in its environment this program
plays the launcher of a node: the first starts the second. Namespaces and cable end with the processes that use them.
Its truth names nobody: no rank is at fault, and which of two nodes lost the cable no stack tells.
Needs root (or user namespaces) and iproute2's `ip`.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time

import in_own_network

PR_SET_PDEATHSIG = 1
CABLE, PORT, SECOND = "cable", "29500", "--second-node"
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


def start_node(node: int, world_size: int) -> int:
    """Run this node's half of the ranks; the exit code of the worst."""
    ip(f"address add {ADDRESSES[node]}/24 dev {CABLE}")
    ip(f"link set {CABLE} up")
    shared = {
        "WORLD_SIZE": str(world_size), "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": PORT, "GLOO_SOCKET_IFNAME": CABLE
    }  # fmt: skip
    half = (world_size + 1) // 2
    ranks = [
        subprocess.Popen(
            [sys.executable, *(word for word in sys.argv if word != SECOND)],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank - node * half)},
        )
        for rank in (range(half, world_size) if node else range(half))
    ]
    return max(abs(rank.wait()) for rank in ranks)


def start() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=4)
    parser.add_argument(SECOND, action="store_true")
    options, _ = parser.parse_known_args()
    in_own_network.enter()
    if options.second_node:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # it goes with the first, its ranks with it
        print("entered", flush=True)
        sys.exit(start_node(1, options.world_size) if sys.stdin.readline() else 1)
    second = subprocess.Popen(
        [sys.executable, *sys.argv, SECOND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert second.stdin is not None
    assert second.stdout is not None
    second.stdout.readline()
    ip(f"link add {CABLE} type veth peer name {CABLE} netns {second.pid}")
    second.stdin.write("go\n")
    second.stdin.flush()
    sys.exit(max(start_node(0, options.world_size), second.wait()))


def main() -> None:
    import torch
    import torch.distributed as dist
    import training

    args = training.arguments(world_size=4)
    dist.init_process_group("gloo")
    step = 0
    while True:
        time.sleep(args.step_ms / 1000)
        if step == args.at and dist.get_rank() == args.rank:
            ip(f"link set {CABLE} down")
        dist.all_reduce(torch.ones(2**18))
        step += 1


if "RANK" in os.environ:
    main()
else:
    start()
