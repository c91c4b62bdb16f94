"""Bytes of sockets, as the kernel counts them; a kernel that refuses, a host with too many, an answer that is cut."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ddetect.host import sockets as module
from ddetect.host.sockets import Sockets, parse_answer, read_sockets
from tests.unit.stacks.targets import until

LOOPBACKS = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


@contextmanager
def connected(
    family: int = socket.AF_INET, host: str = "127.0.0.1"
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection to ourselves."""
    with socket.create_server((host, 0), family=family) as server, socket.socket(family) as one:
        one.connect(server.getsockname())
        other, _ = server.accept()
        with other:
            yield one, other


def inode(end: socket.socket) -> int:
    return os.fstat(end.fileno()).st_ino


def receive(end: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(end.recv(size))


@pytest.mark.parametrize(("family", "host"), LOOPBACKS)
def test_bytes_are_counted_exactly_on_both_ends(family: int, host: str) -> None:
    """/proc/PID/io sees nothing of `send` and `recv`; here not one byte is missing."""
    with connected(family, host) as (one, other):
        before = read_sockets()
        for _ in range(10):
            one.sendall(b"x" * 10_000)
            receive(other, 10_000)

        def moved() -> list[int]:
            after = read_sockets().moved
            return [after[inode(end)] - before.moved[inode(end)] for end in (one, other)]

        until(lambda: moved() == [100_000, 100_000])  # the last acknowledgement may be on its way
    assert before.complete


def test_host_with_too_many_sockets_is_not_read_to_its_end() -> None:
    """A look is not held up, and whoever asked is told that sockets are missing."""
    with connected(), connected():
        assert (read_sockets(most=1).complete, read_sockets().complete) == (False, True)


def test_kernel_that_takes_too_long_is_not_waited_for() -> None:
    """What came in time is not all there is."""
    assert not read_sockets(within_s=0.0).complete


def test_kernel_that_refuses_is_an_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol that it does not know, or a seccomp filter: no counters, no exception."""
    monkeypatch.setattr(module, "_SOCK_DIAG", 31)
    refused = read_sockets()
    monkeypatch.setattr(module, "_SOCK_DIAG", 4)
    monkeypatch.setattr(module, "_BY_FAMILY", 9999)

    assert (refused, read_sockets()) == (Sockets(), Sockets())


def counters(answer: bytes) -> dict[int, int]:
    moved: dict[int, int] = {}
    parse_answer(answer, moved)
    return moved


def test_answer_that_is_cut_off_anywhere_is_read_as_far_as_it_goes() -> None:
    """Never an exception, never a counter that is not there."""
    info = struct.pack("=HH120xQQ", 4 + 136, 2, 30, 12)
    message = struct.pack("=68xI", 4711) + struct.pack("=HHI", 8, 9, 0) + info
    answer = struct.pack("=IHHII", 16 + len(message), 20, 2, 1, 0) + message

    assert counters(answer) == {4711: 42}
    assert [counters(answer[:length]) for length in range(len(answer))] == [{}] * len(answer)


def test_older_kernel_without_counters_tells_none() -> None:
    """A short `struct tcp_info` ends before them."""
    message = struct.pack("=68xI", 4711) + struct.pack("=HH100x", 104, 2)
    answer = struct.pack("=IHHII", 16 + len(message), 20, 2, 1, 0) + message

    assert counters(answer + bytes(200)) == {}
