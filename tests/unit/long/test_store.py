"""The store is as slow as it is asked to be, and ends with its block; so does the disk."""

from __future__ import annotations

import http.client
import os
import threading
import time

from tests.long.disk import slow_disk
from tests.long.store import open_store


def test_bytes_take_their_time_in_both_ways():
    with open_store() as store:
        began = time.monotonic()
        up, down = http.client.HTTPConnection(store.address), http.client.HTTPConnection(store.address)
        up.request("PUT", "/slow?rate=4000", b"w" * 4000)
        down.request("GET", "/slow?rate=4000&bytes=4000")

        assert len(down.getresponse().read()) == 4000
        assert up.getresponse().status == 200
        assert 0.5 < time.monotonic() - began < 20


def test_late_answer_comes_late_and_a_silent_one_never():
    with open_store() as store:
        began = time.monotonic()
        late = http.client.HTTPConnection(store.address)
        late.request("GET", "/late?after_s=0.5&bytes=3")
        assert late.getresponse().read() == b"ddd"
        assert time.monotonic() - began >= 0.5
        silent = http.client.HTTPConnection(store.address, timeout=1.0)
        silent.request("GET", "/slow?rate=4000&bytes=4000&silent_after=1")
        answer = silent.getresponse()
        assert answer.read(1) == b"d"
        try:
            assert len(answer.read()) < 2000
        except TimeoutError:
            pass
    assert not [thread for thread in threading.enumerate() if "serve_forever" in thread.name]


def test_pipe_is_emptied_slowly_and_the_dead_one_never(tmp_path):
    with slow_disk(tmp_path / "disk") as disk:
        pipes = [os.open(disk / name, os.O_WRONLY | os.O_NONBLOCK) for name in ("slow", "dead")]
        filled = [_fill(pipe) for pipe in pipes]
        time.sleep(1.0)
        more = [_fill(pipe) for pipe in pipes]
        for pipe in pipes:
            os.close(pipe)

    assert filled[1] > 0
    assert more[1] == 0
    assert 0 < more[0] < 500_000


def _fill(pipe: int) -> int:
    total = 0
    while True:
        try:
            total += os.write(pipe, b"x" * 4096)
        except BlockingIOError:
            return total
