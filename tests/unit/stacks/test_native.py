"""Reading all threads of a process: one at a time, within the budget, joined with the Python stacks."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

import pytest

from ddetect.host.proc import read_tasks
from ddetect.model import Frame, Thread
from ddetect.stacks import dump as module
from ddetect.stacks import native
from ddetect.stacks.budget import PauseBudget
from ddetect.stacks.dump import read_stacks
from ddetect.stacks.failure import DumpFailed, FailureKind
from ddetect.stacks.native import NativeReader, read_threads, with_native
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.program import Ran, run_pausing
from ddetect.stacks.pystack import Paused
from ddetect.stacks.symbols import NativeThread
from ddetect.stacks.unwind import sees_the_same_files
from tests.unit.stacks.targets import fall_asleep, running

pytestmark = pytest.mark.usefixtures("unhurried")

SLEEPER = """
import time
def nap():
    time.sleep(600)
print("ready", flush=True)
nap()
"""
# Stops its target as a dumper does, says so on stdout, and never lets go by itself.
TRACER = """
import ctypes, sys, time
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
assert libc.ptrace(0x4206, pid, 0, 0) == 0, ctypes.get_errno()  # PTRACE_SEIZE
assert libc.ptrace(0x4207, pid, 0, 0) == 0, ctypes.get_errno()  # PTRACE_INTERRUPT
time.sleep(600)
"""
NATIVE = (NativeThread(7, "python", ("f",), True), NativeThread(8, "tf_Compute", ("g", "h")))


def reader(read: Callable[..., object], now: Callable[[], float] = lambda: 0.0) -> NativeReader:
    return NativeReader(PauseBudget(), read, now)  # type: ignore[arg-type]


def test_python_threads_get_their_symbols_and_the_others_follow():
    """py-spy knows names and the GIL, pystack the C side: one list of both."""
    main = SeenThread(7, Thread("MainThread", True, True, True, (Frame("f", "/a.py", 1),)))

    first, second = with_native([main], NATIVE)

    assert (first.thread.name, first.thread.owns_gil, first.thread.native) == ("MainThread", True, ("f",))
    assert (second.tid, second.thread.name, second.thread.stack, second.thread.native) == (
        8, "tf_Compute", (), ("g", "h")
    )  # fmt: skip


def test_thread_of_python_that_was_left_out_does_not_come_back():
    """The probe's own thread is no part of the job, whoever saw it."""
    assert with_native([], NATIVE[:1]) == ()


def test_only_one_process_is_read_at_a_time():
    """The second that comes is turned away at once, and not counted as a failure."""
    inside, leave = threading.Event(), threading.Event()

    def slow(pid: int, **_: float) -> tuple[tuple[NativeThread, ...], float]:
        inside.set()
        assert leave.wait(60)
        return NATIVE, 0.1

    one = reader(slow)
    thread = threading.Thread(target=one.read, args=(7, "p"))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(DumpFailed, match="another process"):
        one.read(8, "q")
    leave.set()
    thread.join(60)

    assert one.read(8, "q") == NATIVE


def test_process_that_was_paused_for_long_is_left_alone():
    """The dumper is not even started."""
    calls: list[int] = []

    def noting(pid: int, **_: float) -> tuple[tuple[NativeThread, ...], float]:
        calls.append(pid)
        return NATIVE, 1.4

    one = reader(noting)
    one.read(7, "p")
    with pytest.raises(DumpFailed, match="long enough"):
        one.read(7, "p")

    assert calls == [7]


def test_failed_dump_is_remembered():
    """Its pause counts, and it is not tried again at once."""
    calls: list[int] = []

    def failing(pid: int, **_: float) -> tuple[tuple[NativeThread, ...], float]:
        calls.append(pid)
        raise Paused(DumpFailed(FailureKind.BUSY, "too slow"), 0.2)

    one = reader(failing)
    for _ in range(3):
        with pytest.raises(DumpFailed):
            one.read(7, "p")

    assert calls == [7]


def test_dumper_that_pauses_its_target_for_too_long_is_ended():
    """What counts is how long the target stands still, and it goes on when the dumper is ended."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        ran = run_pausing(
            "tracer", child.pid, [sys.executable, "-c", TRACER, str(child.pid)], pause_s=0.3, timeout_s=60.0
        )
        states = [task.state for task in read_tasks(child.pid)]

    assert ran.failed is not None
    assert (ran.failed.kind, "paused" in ran.failed.reason) == (FailureKind.BUSY, True)
    assert (0.3 <= ran.paused_s < 30.0, "t" in states) == (True, False)


def test_dumper_that_never_comes_to_its_target_is_ended_too():
    """A machine that is too busy to start it: the target was not paused at all."""
    with running(SLEEPER) as child:
        ran = run_pausing(
            "sleeper", child.pid, [sys.executable, "-c", SLEEPER], pause_s=9.0, timeout_s=0.2
        )  # fmt: skip

    assert ran.failed is not None
    assert (ran.paused_s, "took more than" in ran.failed.reason) == (0.0, True)


def test_all_threads_of_a_real_process_are_read():
    """The Python stack stays py-spy's; its C side comes with it."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        states = "".join(task.state for task in read_tasks(child.pid))
        dump = read_stacks(child.pid, states=states, native=True, everything=(NativeReader(), child.pid))

    main = dump.seen[0].thread
    assert (dump.dumper, main.stack[0].function) == ("py-spy, libdw", "nap")
    assert any("sleep" in symbol for symbol in main.native)


def test_python_stack_is_kept_where_native_ones_may_not_be_read():
    """The budget forbids to look: that costs the C symbols and nothing else."""

    def failing(pid: int, **_: float) -> tuple[tuple[NativeThread, ...], float]:
        raise Paused(DumpFailed(FailureKind.BUSY, "too slow"), 0.2)

    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        states = "".join(task.state for task in read_tasks(child.pid))
        dump = read_stacks(child.pid, states=states, native=True, everything=(reader(failing), child.pid))

    assert (dump.dumper, dump.unread, dump.seen[0].thread.native) == ("py-spy", "", ())


def test_gentle_dump_is_never_native():
    """Peers of such a rank take it for dead when it is paused: what is asked for does not matter."""

    def never(*_: object, **__: object) -> object:
        raise AssertionError("it was paused")

    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        states = "".join(task.state for task in read_tasks(child.pid))
        dump = read_stacks(
            child.pid, states=states, native=True, everything=(reader(never), child.pid), gentle=True
        )

    assert (dump.dumper, dump.seen[0].thread.native) == ("py-spy", ())


def test_gentle_dump_pauses_shortly_or_not_at_all(monkeypatch: pytest.MonkeyPatch):
    """py-spy gets half a second while the process stands still; whatever is tried after that does not stop it."""
    tried: list[tuple[str, bool, float]] = []

    def failing(name: str) -> Callable[..., object]:
        def read(pid: int, *, blocking: bool, timeout_s: float, **_: object) -> object:
            tried.append((name, blocking, timeout_s))
            raise DumpFailed(FailureKind.BUSY, "too slow")

        return read

    monkeypatch.setattr(module, "read_pyspy", failing("py-spy"))
    monkeypatch.setattr(module, "read_pystack", failing("pystack"))
    read_stacks(1, states="SSS", gentle=True)

    assert [(name, blocking) for name, blocking, _ in tried] == [
        ("py-spy", True),
        ("py-spy", False),
        ("pystack", False),
    ]
    assert tried[0][2] <= 0.5


TICKING = """
import signal, sys, threading, time
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
longest, last = 0.0, time.monotonic()
while not got:
    time.sleep(0.001)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
print(longest, flush=True)
"""


def test_process_runs_on_while_its_symbols_are_looked_up():
    """It stands still for milliseconds; read again and again, it lives, and gets its signals."""
    with running(TICKING) as child:
        threads = [read_threads(child.pid, pause_s=2.0, timeout_s=60.0)[0] for _ in range(3)]
        child.send_signal(signal.SIGUSR1)
        assert child.stdout is not None
        longest_s = float(child.stdout.readline())
        assert child.wait(60) == 0

    assert all(len(found) == 2 and found[0].has_python for found in threads)
    assert longest_s < 1.0  # a busy machine's scheduler included


def test_pystack_is_asked_where_libdw_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    """Slower, and longer paused: within what is left of the budget."""
    asked: list[float] = []

    def second(pid: int, *, pause_s: float, timeout_s: float) -> tuple[tuple[NativeThread, ...], float]:
        asked.append(pause_s)
        return NATIVE, 0.5

    broken = Ran(paused_s=0.5, failed=DumpFailed(FailureKind.BROKEN, "no libdw"))
    monkeypatch.setattr(native, "run_pausing", lambda *_, **__: broken)
    monkeypatch.setattr(native, "read_pystack_native", second)

    assert (read_threads(7, pause_s=2.0, timeout_s=4.0), asked) == ((NATIVE, 0.5), [1.5])


def test_process_that_may_not_be_traced_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch):
    """What the kernel denies it denies to pystack, too."""
    denied = Ran(failed=DumpFailed(FailureKind.DENIED, "ptrace"))
    monkeypatch.setattr(native, "run_pausing", lambda *_, **__: denied)

    with pytest.raises(DumpFailed, match="ptrace"):
        read_threads(7, pause_s=2.0, timeout_s=4.0)


def test_own_container_is_told_from_none_at_all():
    """A process that is gone, or that may not be asked, has no files of ours."""
    with running(SLEEPER) as child:
        assert sees_the_same_files(child.pid)

    assert not sees_the_same_files(child.pid)
