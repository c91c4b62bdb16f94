"""Dumps of real processes: they need ptrace, and say so when it is denied."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddetect.agent.discover import find_children
from ddetect.host.proc import read_runs, read_stat, read_tasks, read_tids
from ddetect.host.ptrace import why_not
from ddetect.stacks import dump as module
from ddetect.stacks.dump import PASSING, Dump, read_stacks
from ddetect.stacks.failure import DumpFailed, FailureKind, explain
from ddetect.stacks.faulthandler import FaultFile, read_faulthandler
from ddetect.stacks.parse import SeenThread
from ddetect.stacks.pyspy import read_pyspy
from ddetect.stacks.pystack import read_pystack
from tests.unit.stacks.targets import fall_asleep, running, until

pytestmark = pytest.mark.usefixtures("unhurried")

SLEEPER = """
import time
def nap():
    time.sleep(600)
print("ready", flush=True)
nap()
"""
GIL_HOLDER = """
import ctypes
def hold():
    ctypes.PyDLL(None).sleep(600)
print("ready", flush=True)
hold()
"""


def _states(pid: int) -> str:
    return "".join(task.state for task in read_tasks(pid))


def _dump(pid: int) -> Dump:
    denied = why_not(pid)
    assert not denied, denied
    return read_stacks(pid, states=_states(pid))


def test_sleeping_process_is_dumped_with_its_line() -> None:
    """The ordinary case: blocking py-spy, main thread, innermost frame."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        dump = _dump(child.pid)

    main = dump.seen[0].thread
    assert (
        dump.dumper,
        main.is_main,
        main.stack[0].function,
        main.stack[0].line,
    ) == ("py-spy", True, "nap", 4)


def test_gil_held_in_c_shows_an_idle_owner() -> None:
    """A C call that sleeps with the GIL: the thread owns it and is not active."""
    with running(GIL_HOLDER) as child:
        fall_asleep(child.pid)
        dump = _dump(child.pid)

    main = dump.seen[0].thread
    assert (main.owns_gil, main.active, main.stack[0].function) == (True, False, "hold")


def test_stopped_process_is_dumped_without_pausing_it() -> None:
    """Blocking py-spy fails on a stopped process; the other mode reads it where it stands."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: _states(child.pid) == "T")
        dump = _dump(child.pid)

    assert (dump.dumper, dump.seen[0].thread.stack[0].function) == ("py-spy --nonblocking", "nap")


def test_process_stopped_behind_our_back_is_dumped_all_the_same() -> None:
    """Between reading /proc and dumping it may stop: the second attempt does not need to pause it."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: _states(child.pid) == "T")
        dump = read_stacks(child.pid, states="S")

    assert dump.seen[0].thread.stack[0].function == "nap"


def test_process_that_is_not_python_says_so() -> None:
    """A shell or a compiler below a rank is evidence with a reason."""
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            until(lambda: (stat := read_stat(child.pid)) and stat.name == "sleep")
            dump = _dump(child.pid)
        finally:
            child.kill()

    assert ((), f"pid {child.pid} is not a Python program") == (dump.seen, dump.unread)


def test_dead_process_says_so() -> None:
    """A pid that is gone is a sentence, not an exception."""
    with running(SLEEPER) as child:
        pass

    assert read_stacks(child.pid, states="S").unread == f"pid {child.pid} is gone"


def test_pystack_reads_what_pyspy_reads() -> None:
    """The second dumper, run on the same process, gives the same main stack."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        first = _dump(child.pid).seen[0].thread
        second = read_pystack(child.pid, blocking=True, timeout_s=60.0)[0].thread

    assert (first.stack, first.is_main) == (second.stack, second.is_main)


FAULTY = """
import faulthandler, sys, time
file = open(sys.argv[1], "ab", buffering=0)
faulthandler.register(int(sys.argv[2]), file=file, all_threads=True)
def nap():
    time.sleep(600)
print("ready", flush=True)
nap()
"""


def test_faulthandler_is_asked_where_ptrace_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ptrace denied the interpreter writes its own stacks, and the dump says who wrote them."""

    def denied(pid: int, **_: object) -> None:
        raise explain("py-spy", pid, "Error: Permission denied (os error 13)")

    monkeypatch.setattr(module, "read_pyspy", denied)
    path = str(tmp_path / "x.fault")
    with running(FAULTY, path, str(int(signal.SIGRTMAX - 3))) as child:
        fall_asleep(child.pid)
        dump = read_stacks(child.pid, states="S", fault=FaultFile(path, signal.SIGRTMAX - 3))

    assert (dump.dumper, dump.seen[0].thread.stack[0].function, dump.unread) == ("faulthandler", "nap", "")


def test_process_without_the_handler_is_not_signalled(tmp_path: Path) -> None:
    """An unhandled signal kills: a process that does not catch it is left alone."""
    path = tmp_path / "x.fault"
    path.touch()
    with running(SLEEPER) as child:
        with pytest.raises(DumpFailed, match="does not catch"):
            read_faulthandler(child.pid, FaultFile(str(path), signal.SIGUSR1), timeout_s=0.2)
        assert child.poll() is None


@pytest.mark.parametrize(
    ("printed", "kind"),
    [
        (
            "Error: Failed to get process executable name.\nReason: No such file (os error 2)",
            FailureKind.GONE,
        ),
        (
            "Error: Failed to get process executable name.\nReason: Permission denied (os error 13)",
            FailureKind.DENIED,
        ),
        ("Error: Failed to suspend process\nReason: unexpected waitpid result", FailureKind.BUSY),
        ("Error: Failed to find python version from target process", FailureKind.NOT_PYTHON),
        ("Error: something new", FailureKind.BROKEN),
        ("", FailureKind.BROKEN),
    ],
)
def test_failures_with_the_same_first_line_are_told_apart(printed: str, kind: FailureKind) -> None:
    """Only the error number separates a dead pid from a missing permission."""
    assert explain("py-spy", 1, printed).kind is kind


def test_zombie_is_a_reason() -> None:
    """A process that ended and was not collected has no stack, and the dump says why."""
    child = subprocess.Popen(["true"])
    try:
        until(lambda: (stat := read_stat(child.pid)) is not None and stat.state == "Z")
        assert "zombie" in read_stacks(child.pid, states="Z").unread
    finally:
        child.wait()


def test_native_stack_names_the_c_function_below_python() -> None:
    """On demand the C symbols come with the Python stack."""
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        dump = read_stacks(child.pid, states=_states(child.pid), native=True)

    main = dump.seen[0].thread
    assert (dump.dumper, main.stack[0].function) == ("py-spy --native", "nap")
    assert any("sleep" in symbol for symbol in main.native)


IN_VFORK = """
import ctypes, time
def wait_for_child():
    ctypes.CDLL(None).vfork()
    time.sleep(600)
print("ready", flush=True)
wait_for_child()
"""


def test_python_stack_is_kept_when_symbols_take_too_long(monkeypatch) -> None:
    """A busy machine needs seconds for a library of half a gigabyte; the line is known long before."""

    def slow_with_symbols(pid: int, *, native: bool = False, **how: Any) -> Any:
        if native:
            raise DumpFailed(FailureKind.BUSY, "py-spy took more than 3.0 s")
        return read_pyspy(pid, **how)

    monkeypatch.setattr(module, "read_pyspy", slow_with_symbols)
    with running(SLEEPER) as child:
        fall_asleep(child.pid)
        dump = read_stacks(child.pid, states=_states(child.pid), native=True)

    main = next(one.thread for one in dump.seen if one.thread.is_main)
    assert (dump.dumper, main.stack[0].function, dump.unread) == ("py-spy", "nap", "")


def test_process_in_uninterruptible_sleep_is_dumped_and_never_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocking dump hangs on a process in D (here: vfork until its child execs): only the other mode is tried."""
    modes: list[bool] = []

    def noting(pid: int, *, blocking: bool, timeout_s: float) -> tuple[SeenThread, ...]:
        modes.append(blocking)
        return read_pyspy(pid, blocking=blocking, timeout_s=timeout_s)

    monkeypatch.setattr(module, "read_pyspy", noting)
    with running(IN_VFORK) as child:
        until(lambda: _states(child.pid) == "D")
        below = [pid for _, pid, _ in find_children({child.pid}, {child.pid})]
        try:
            dump = _dump(child.pid)
        finally:
            for pid in below:
                os.kill(pid, signal.SIGKILL)

    assert (modes, dump.seen[0].thread.stack[0].function) == ([False], "wait_for_child")


def test_passing_dump_neither_pauses_nor_asks_and_tells_which_thread_is_the_probes(tmp_path: Path) -> None:
    """Of a process that sleeps not one thread runs for it; our own thread is told apart by its number."""
    code = """
import os, sys, threading
from ddetect_probe import beat, page, state
os.mkdir(sys.argv[1] + "/pages")
state.open_page(sys.argv[1], page.ROLE_RANK)
beat.PERIOD_S = 3600
beat.start()
print("ready", flush=True)
threading.Event().wait()
"""
    with running(code, str(tmp_path)) as child:
        sleeps = {"futex", "clock_nanosleep", "select", "pselect6"}
        until(lambda: {task.syscall for task in read_tasks(child.pid)} <= sleeps)
        tids = read_tids(child.pid)
        before = [read_runs(child.pid, tid) for tid in tids]
        dump = read_stacks(child.pid, states="SS", passing=True, timeout_s=60.0)
        after = [read_runs(child.pid, tid) for tid in tids]

    assert (dump.dumper, [one.tid for one in dump.seen], dump.ours) == (
        PASSING,
        [child.pid],
        frozenset(tids[1:]),
    )
    assert before == after
