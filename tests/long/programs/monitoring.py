"""What goes on beside a training, whatever becomes of it: the usual company of a rank. Standard library, and psutil.

Enters: the name of one of KINDS. Leaves: a thread or a child that never stops while the rank lives, and says nothing
about whether the training moves. Never here: more than a tenth of a core.
"""

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

HEARTBEAT = 50  # bytes a second


def send_heartbeats(store: str) -> None:
    """A dashboard wants to know that the host lives."""
    import http.client

    connection = http.client.HTTPConnection(store)
    connection.putrequest("PUT", "/heartbeat")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    while True:
        connection.send(b"." * HEARTBEAT)
        time.sleep(1.0)


def watch_resources(_store: str) -> None:
    """Memory, CPU and network of this process and this host, each second."""
    import psutil

    process = psutil.Process()
    while True:
        process.memory_info(), process.cpu_percent(), process.num_threads(), psutil.net_io_counters()
        time.sleep(1.0)


def log_alive(_store: str) -> None:
    """A line every two seconds."""
    log = logging.getLogger("alive")
    log.addHandler(logging.StreamHandler(tempfile.TemporaryFile("w")))  # noqa: SIM115 - as long as the rank
    log.setLevel(logging.INFO)
    log.propagate = False
    while True:
        log.info("still here at %.1f", time.time())
        time.sleep(2.0)


def _in_a_thread(work: Callable[[str], None]) -> Callable[[str], None]:
    return lambda store: threading.Thread(target=work, args=(store,), daemon=True).start()


def _child(program: str, *, apart: bool) -> None:
    """It ends when the pipe that it reads is closed: with this process."""
    subprocess.Popen(
        [sys.executable, os.path.join(os.path.dirname(__file__), program)],
        stdin=subprocess.PIPE,
        start_new_session=apart,
    )


KINDS: dict[str, Callable[[str], None]] = {
    "heartbeat": _in_a_thread(send_heartbeats),
    "psutil": _in_a_thread(watch_resources),
    "logger": _in_a_thread(log_alive),
    "tracker": lambda store: _child("tracker_child.py", apart=True),
    "spinner": lambda store: _child("spinner_child.py", apart=False),
}


def start(kind: str, store: str) -> None:
    KINDS[kind](store)
