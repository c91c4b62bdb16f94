"""What the kernel tells of a process's end, with real processes."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest
from ddetect_probe.page import start_ticks

from ddetect.agent.deaths import Deaths
from ddetect.agent.members import JobProcess
from ddetect.host.pidfd import read_reaped_status
from ddetect.model import Role

KERNEL = tuple(int(part) for part in platform.release().split(".")[:2])


@pytest.mark.parametrize(
    ("ends", "status"), [("os.kill(os.getpid(), 9)", 9), ("os._exit(0)", 0), ("os._exit(3)", 3 << 8)]
)
def test_end_of_a_process_is_known_at_once_with_what_ended_it(ends, status):
    """The order and the reason of deaths come from the kernel, before anybody has waited for the zombie."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os, sys; sys.stdin.read(); {ends}"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    member = JobProcess(process.pid, start_ticks(process.pid), Role.RANK, 0)

    async def watch() -> Deaths:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        deaths = Deaths(loop.add_reader, loop.remove_reader, woken.set)
        deaths.watch([member])
        process.stdin.close()  # type: ignore[union-attr]
        await asyncio.wait_for(woken.wait(), 60)
        deaths.watch([member])  # what is known is not watched again
        deaths.close()
        return deaths

    try:
        deaths = asyncio.run(watch())
    finally:
        process.kill()
        process.wait()

    assert deaths.seen[member.key].status == status


@pytest.mark.skipif(KERNEL < (6, 15), reason="older kernels tell only the parent")
@pytest.mark.parametrize(
    ("ends", "status"), [("os.kill(os.getpid(), 9)", 9), ("os._exit(0)", 0), ("os._exit(3)", 3 << 8)]
)
def test_end_of_a_process_that_was_waited_for_is_known_too(ends, status):
    """mp.spawn's parent waits for its children at once: that must not look like a signal."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os, sys; sys.stdin.read(); {ends}"], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    member = JobProcess(process.pid, start_ticks(process.pid), Role.RANK, 0)
    called: list[Callable[[], object]] = []
    deaths = Deaths(lambda _, call, *args: called.append(lambda: call(*args)), lambda _: None, lambda: None)
    deaths.watch([member])
    process.stdin.close()
    process.wait()

    called[0]()

    assert deaths.seen[member.key].status == status


def test_pidfd_of_a_living_process_tells_no_status():
    """No status is not the status 0."""
    handle = os.pidfd_open(os.getpid())
    try:
        assert read_reaped_status(handle) is None
    finally:
        os.close(handle)


def test_what_is_no_pidfd_tells_no_status():
    """As on a kernel that does not know the question."""
    with open(os.devnull) as other:
        assert read_reaped_status(other.fileno()) is None


def test_watching_a_process_that_is_gone_tells_nothing():
    """A pid that was given to another process is not taken for ours."""
    deaths = Deaths(lambda *_: None, lambda _: None, lambda: None)

    deaths.watch([JobProcess(os.getpid(), 1, Role.RANK, 0), JobProcess(2**22 + 1, 5, Role.RANK, 1)])
    deaths.close()

    assert deaths.seen == {}
