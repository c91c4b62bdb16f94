"""What is far away and slow: a web server on loopback that trickles, answers late, or goes silent as it is asked to.

Enters: requests; how slow is in the address. Leaves: bytes, so many a second. `/slow` gives (GET) or takes (PUT) at
`rate` bytes a second and is silent for good after `silent_after` of them; `/late` answers after `after_s`; `/heartbeat`
takes whatever comes. Never here: a thread that outlives `with`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from urllib.parse import parse_qsl, urlsplit

BUFFER = 4096  # of what arrives: what a sender has got rid of should be here, and not on its way
PART = 65536
SLICE_S = 0.25


class Store(ThreadingHTTPServer):
    """One store, for one job."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), _Request, bind_and_activate=False)
        self.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER
        )  # those that are accepted have it too
        self.server_bind()
        self.server_activate()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked is gone: jobs are ended in the middle of everything."""


class _Request(BaseHTTPRequestHandler):
    """One request; its thread ends when the store does."""

    protocol_version = "HTTP/1.0"
    rbufsize = 0  # nothing is taken before its time
    server: Store

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        told = self._told()
        size = int(told.get("bytes", 0))
        if self._closed_after(told.get("after_s", 0.0)):
            return
        self._answer(size)
        self._move(size, told, lambda most: self.wfile.write(b"d" * most))

    def do_PUT(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        if self._move(size, self._told(), lambda most: len(self.rfile.read(most) or b"")):
            self._answer(0)

    def _told(self) -> dict[str, float]:
        return {name: float(value) for name, value in parse_qsl(urlsplit(self.path).query)}

    def _answer(self, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _move(self, size: int, told: dict[str, float], some: Callable[[int], int]) -> bool:
        """Have so many bytes moved, each when its time has come; whether all were. `some` says how many it moved."""
        rate, silent_after = told.get("rate", inf), told.get("silent_after", inf)
        began, moved = time.monotonic(), 0
        while moved < size:
            if moved >= silent_after:
                return not self._closed_after(inf)
            due = size if rate == inf else min(size, int(rate * (time.monotonic() - began + SLICE_S)))
            while moved < min(due, silent_after):
                now_moved = some(min(due - moved, PART))
                if not now_moved:
                    return False  # whoever asked is gone
                moved += now_moved
            if moved < size and rate != inf and self._closed_after(SLICE_S):
                return False
        return True

    def _closed_after(self, seconds: float) -> bool:
        """Wait so long; whether the store is closed by then."""
        return self.server.over.wait(None if seconds == inf else seconds)


@contextmanager
def open_store() -> Iterator[Store]:
    """A store that serves until the block is left."""
    store = Store()
    serving = threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    serving.start()
    try:
        yield store
    finally:
        store.over.set()
        store.shutdown()
        serving.join()
        store.server_close()
