"""Three workers of MultiWorkerMirroredStrategy, started without ddetect; the last one stops in Python and lives on.

Enters: nothing but TensorFlow's interpreter. Leaves: the running processes, ended when the block is left.
Never here: ddetect's own processes, an opinion.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = """
import json, os, threading, time
import tensorflow as tf
def tick():
    last = time.monotonic()
    while True:
        time.sleep(0.002)
        now = time.monotonic()
        if now - last > 0.1:  # less is the scheduler's
            print("paused", now, now - last, flush=True)
        last = now
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones((4,))))
for number in range(1 << 30):
    if number == 5:
        print("stuck", flush=True)
        threading.Thread(target=tick, daemon=True).start()
        if index == 2:
            time.sleep(3600)
    step()
"""


def tf_python() -> str:
    """TensorFlow's own interpreter; a sentence for the user where there is none."""
    path = os.environ.get("DDETECT_TF_PYTHON") or str(ROOT / ".venv-tf" / "bin" / "python")
    assert os.access(path, os.X_OK), f"no TensorFlow at {path}: set DDETECT_TF_PYTHON to its interpreter"
    return path


@contextmanager
def hung_workers(count: int = 3, code: str = JOB) -> Iterator[list[subprocess.Popen[str]]]:
    """The workers, once each of them has said that it is stuck: the last in Python, the others in a collective."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in _free_ports(count)]}
    python = tf_python()
    with ExitStack() as ended:
        workers: list[subprocess.Popen[str]] = []
        for index in range(count):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            worker = subprocess.Popen(
                [python, "-c", code],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""},
            )
            ended.callback(_end, worker)
            workers.append(worker)
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "stuck\n", "a worker ended before it was stuck"
        yield workers


def pauses_of(worker: subprocess.Popen[str]) -> list[tuple[float, float]]:
    """End it; when it had not run for a tenth of a second or more, and for how long."""
    worker.kill()
    assert worker.stdout is not None
    told = [line.split() for line in worker.stdout.read().splitlines() if line.startswith("paused ")]
    return [(float(line[1]), float(line[2])) for line in told if len(line) == 3]


def _end(worker: subprocess.Popen[str]) -> None:
    worker.kill()  # TensorFlow swallows SIGTERM
    worker.wait()
    if worker.stdout:
        worker.stdout.close()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as open_:
        sockets = [open_.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
