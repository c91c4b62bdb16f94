"""Which sockets a process has, and in which of them a thread is blocked, however it waits."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ddetect.host.descriptors import read_blocked_in, read_open_sockets
from ddetect.host.proc import read_task, read_tasks
from ddetect.host.syscalls import parse_bits, parse_pollfds
from tests.unit.stacks.targets import running, until

WAITS = {
    "recv": "link.recv(1)",
    "send": "link.sendall(bytes(1 << 26))",
    "poll": "link.settimeout(3600); link.recv(1)",
    "poll of many": "p = select.poll(); [p.register(r, 1) for r in (rest, link)]; p.poll()",
    "select": "select.select([rest], [], [link])",
    "epoll": "e = select.epoll(); [e.register(r, 1) for r in (rest, link)]; e.poll()",
    "asyncio": """
async def read():
    link.setblocking(False)
    await asyncio.get_running_loop().sock_recv(link, 1)
asyncio.run(read())
""",
}
PROGRAM = """
import asyncio, os, select, socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
rest = os.pipe()[0]
print("ready", flush=True)
print(link.fileno(), flush=True)
"""


@contextmanager
def waiting(code: str) -> Iterator[tuple[int, int]]:
    """A program that is connected to us and waits; its pid, and the descriptor of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with running(PROGRAM + code, port) as child, server.accept()[0]:
            assert child.stdout is not None
            yield child.pid, int(child.stdout.readline())


@pytest.mark.parametrize("how", WAITS)
def test_thread_is_blocked_in_the_socket_that_it_waits_for(how: str) -> None:
    """Blocking, with a timeout, among others, in an event loop: its socket is among the descriptors it waits for."""
    with waiting(WAITS[how]) as (pid, link):
        until(lambda: (task := read_task(pid, pid)) and link in read_blocked_in(pid, task))
        sockets = read_open_sockets(pid)
        assert os.readlink(f"/proc/{pid}/fd/{link}") == f"socket:[{sockets[link]}]"


def test_timed_wait_that_a_tracer_interrupted_is_still_known() -> None:
    """A pause turns `poll` into `restart_syscall`, whose arguments are those of before."""
    from ddetect.stacks.pyspy import read_pyspy

    with waiting(WAITS["poll"]) as (pid, link):
        until(lambda: (task := read_task(pid, pid)) and link in read_blocked_in(pid, task))
        read_pyspy(pid, blocking=True, timeout_s=60)
        until(lambda: (task := read_task(pid, pid)) and link in read_blocked_in(pid, task))


def test_thread_that_waits_for_no_descriptor_is_blocked_in_none() -> None:
    """A lock has no bytes."""
    code = "import threading; lock = threading.Lock(); lock.acquire(); print('ready', flush=True); lock.acquire()"
    with running(code) as child:
        until(lambda: read_tasks(child.pid)[0].syscall == "futex")
        assert read_blocked_in(child.pid, read_tasks(child.pid)[0]) == ()


def test_process_that_is_gone_has_no_sockets() -> None:
    """No exception because of a pid."""
    assert read_open_sockets(2**22 + 1) == {}


def test_arrays_of_the_kernel_are_read() -> None:
    """A descriptor of -1 is one that poll passes over; a bit of the second long counts from 64."""
    pollfds = b"".join(struct.pack("=ihh", number, 1, 0) for number in (7, -1, 300))

    assert parse_pollfds(pollfds + b"\0\0\0") == (7, 300)
    assert parse_bits(struct.pack("=QQ", 1 << 5 | 1, 1 << 2)) == (0, 5, 66)
