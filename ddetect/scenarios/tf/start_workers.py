"""Start the workers of a job on this machine: `python start_workers.py --workers 3 PROGRAM OPTIONS`.

Enters: a program. Leaves: one process per task, each with its own TF_CONFIG and port; the worst exit code of them.
With --chief the first task is the chief; --without N leaves task N out, as a node does that never comes up.
Never here: TensorFlow; a worker that outlives this process.
"""

import argparse
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time

GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now; all are held at once, so that they differ."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def configurations(workers: int, chief: bool) -> list[str]:
    """TF_CONFIG of each task, in the order of ranks."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    cluster = {"chief": addresses[:1], "worker": addresses[1:]} if chief else {"worker": addresses}
    tasks = [{"type": kind, "index": i} for kind, members in cluster.items() for i in range(len(members))]
    return [json.dumps({"cluster": cluster, "task": task}) for task in tasks]


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end(workers: list[subprocess.Popen[bytes]]) -> None:
    """TensorFlow takes SIGTERM for the announcement of a preemption and goes on: a while later it is SIGKILL."""
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + GRACE_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--chief", action="store_true")
    parser.add_argument("--without", type=int)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for rank, configuration in enumerate(configurations(args.workers, args.chief)):
            if rank != args.without:
                environment = {**os.environ, "TF_CONFIG": configuration}
                command = [sys.executable, *args.program]
                workers.append(subprocess.Popen(command, env=environment, preexec_fn=die_with_parent))
        codes = [worker.wait() for worker in workers]
    finally:
        end(workers)
    return max(code if code >= 0 else 128 - code for code in codes)


if __name__ == "__main__":
    sys.exit(main())
