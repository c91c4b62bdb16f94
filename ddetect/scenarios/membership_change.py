"""An elastic job of two nodes loses the first: the ranks of the second are numbered anew, and one of them gets stuck.

Without RANK in its environment this program plays the launcher of both: two torchruns on one host. The node that
leaves has one rank, so the job that stays is as large as was asked for. It comes first and is the first node by its
smaller process id; the rendezvous is kept by the other.
"""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start_node(is_host: bool, ranks: int, port: int) -> "subprocess.Popen[bytes]":
    rendezvous = f"is_host={int(is_host)},last_call_timeout=5,keep_alive_interval=1"
    options = [
        "--nnodes", "1:2", "--nproc-per-node", str(ranks), "--max-restarts", "1", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", f"elastic-{os.getpid()}", "--rdzv-conf", rendezvous,
    ]  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *options, *sys.argv], preexec_fn=end_with_parent
    )


def start() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=4)
    options, _ = parser.parse_known_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    leaving = start_node(is_host=False, ranks=1, port=port)
    staying = start_node(is_host=True, ranks=options.world_size, port=port)
    leaving.wait()
    sys.exit(abs(staying.wait()))


def main() -> None:
    import torch.distributed as dist
    import training

    def leave() -> None:
        os.kill(
            os.getppid(), signal.SIGTERM
        )  # the node is taken away: its torchrun goes, and this rank with it
        time.sleep(training.LIFETIME_S)

    def read_index() -> None:
        time.sleep(training.LIFETIME_S)  # <- stuck here

    args = training.arguments(world_size=4)
    dist.init_process_group("gloo")
    if dist.get_world_size() > args.world_size:
        args.rank = 0
        training.train(args, leave)
    elif (
        os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    ):  # the other node is late: the job starts again with it
        training.train(args, lambda: None)
    training.train(args, read_index)


if "RANK" in os.environ:
    main()
else:
    start()
