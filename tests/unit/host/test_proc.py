from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from ddetect.host.proc import (
    Task,
    is_alive,
    parse_stat,
    read_cmdline,
    read_environ,
    read_io_bytes,
    read_name,
    read_run_ns,
    read_runs,
    read_stat,
    read_status,
    read_tasks,
    read_tids,
)
from ddetect.host.syscalls import name_of, restarted
from ddetect.model import UNKNOWN
from tests.unit.stacks.targets import running, until

NOBODY = 2**22 + 1  # above the largest pid there can be


def _main(pid: int) -> Task:
    return read_tasks(pid)[0]


def test_flock_is_named_with_its_file(tmp_path: Path) -> None:
    """A process that waits for a lock on a file shows the call and the file."""
    path = tmp_path / "shard.lock"
    code = "import fcntl,sys; f=open(sys.argv[1]); print('ready',flush=True); fcntl.flock(f, fcntl.LOCK_EX)"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with running(code, str(path)) as child:
            until(lambda: _main(child.pid).syscall == "flock")
            assert (str(path), "S") == (_main(child.pid).target, _main(child.pid).state)


def test_fifo_read_is_named_with_its_path(tmp_path: Path) -> None:
    """A read that waits for a writer shows what it reads."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    code = "import os,sys; f=os.open(sys.argv[1], os.O_RDWR); print('ready',flush=True); os.read(f, 1)"
    with running(code, path) as child:
        until(lambda: _main(child.pid).syscall == "read")
        assert _main(child.pid).target == path


def test_open_that_waits_is_named_with_the_path_it_opens(tmp_path: Path) -> None:
    """Opening may block (a fifo, a file system that is gone): the path is read from the process."""
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    code = "import os,sys; print('ready',flush=True); os.open(sys.argv[1], os.O_RDONLY)"
    with running(code, path) as child:
        until(lambda: _main(child.pid).syscall == "openat")
        assert _main(child.pid).target == path


def test_poll_on_one_descriptor_is_named_with_it() -> None:
    """A queue that waits polls one pipe: the pipe is the target."""
    code = (
        "import os,select; r,w=os.pipe(); p=select.poll(); p.register(r); print('ready',flush=True); p.poll()"
    )
    with running(code) as child:
        until(lambda: _main(child.pid).syscall in ("poll", "ppoll"))
        assert _main(child.pid).target.startswith("pipe:[")


def test_stopped_process_is_t() -> None:
    """SIGSTOP shows as T in every thread."""
    with running("import time; print('ready',flush=True); time.sleep(600)") as child:
        child.send_signal(signal.SIGSTOP)
        until(lambda: _main(child.pid).state == "T")


def test_process_that_is_gone_is_a_value_everywhere() -> None:
    """No function here raises because a process is gone."""
    assert (
        read_stat(NOBODY),
        read_tasks(NOBODY),
        read_io_bytes(NOBODY),
        read_environ(NOBODY),
        read_cmdline(NOBODY),
        read_status(NOBODY),
    ) == (None, (), UNKNOWN, {}, (), {})
    assert read_run_ns(NOBODY) == read_runs(NOBODY, NOBODY) == (UNKNOWN, UNKNOWN)
    assert (read_tids(NOBODY), read_name(NOBODY, NOBODY)) == ([], "")


def test_another_process_with_the_same_pid_is_not_alive() -> None:
    """Pids are used again: only pid and start time together are an identity."""
    stat = read_stat(os.getpid())
    assert stat is not None

    assert (
        is_alive(os.getpid(), stat.start_ticks),
        is_alive(os.getpid(), stat.start_ticks + 1),
    ) == (True, False)


def test_name_with_brackets_and_spaces_is_read_whole() -> None:
    """A program may call itself anything."""
    fields = " ".join(["4"] * 16)

    stat = parse_stat(f"12 (a) b (c) S 1 {fields} 99 0 0".encode())

    assert stat is not None
    assert (stat.name, stat.state, stat.parent) == ("a) b (c", "S", 1)


@pytest.mark.parametrize("raw", [b"", b"12", b"12 (x) S", b"garbage)"])
def test_stat_line_that_is_cut_off_is_none(raw: bytes) -> None:
    """A process may vanish while its line is read."""
    assert parse_stat(raw) is None


def test_io_bytes_rise_when_bytes_move(tmp_path: Path) -> None:
    """A checkpoint that is still being written shows as motion, to whatever file system it goes."""
    before = read_io_bytes(os.getpid())
    (tmp_path / "checkpoint").write_bytes(b"x" * 100_000)

    assert read_io_bytes(os.getpid()) - before >= 100_000


def test_bytes_are_those_of_the_thread_that_moved_them() -> None:
    """Who writes is told apart from who sleeps beside it; a thread that moved nothing has moved 0, not UNKNOWN."""
    code = (
        "import os, threading\n"
        "def write():\n"
        "    os.write(os.open('/dev/null', os.O_WRONLY), bytes(50_000))\n"
        "    print('ready', flush=True)\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "threading.Thread(target=write).start()\n"
        "threading.Event().wait()"
    )
    with running(code) as child:
        _, idle, writer = read_tids(child.pid)
        assert (read_io_bytes(child.pid, idle), read_io_bytes(child.pid, writer)) == (
            0,
            50_000 + len("ready\n"),
        )


def test_thread_that_is_blocked_is_put_on_no_cpu() -> None:
    """The kernel counts how often a thread ran: for one in a lock the number stands still."""
    with running("import threading; print('ready', flush=True); threading.Event().wait()") as child:
        until(lambda: _main(child.pid).syscall == "futex")
        before = read_runs(child.pid, child.pid)
        assert before[0] > 0
        assert before[1] > 0
        assert read_runs(child.pid, child.pid) == before


def test_call_resumed_after_a_tracers_pause_keeps_its_name() -> None:
    """A dump turns a timed sleep into restart_syscall; the next sample must not read differently."""
    assert (
        restarted("restart_syscall", "hrtimer_nanosleep"),
        restarted("restart_syscall", "poll_schedule_timeout.constprop.0"),
        restarted("read", "hrtimer_nanosleep"),
    ) == ("clock_nanosleep", "poll", "read")


@pytest.mark.parametrize(
    ("machine", "number", "name"),
    [("x86_64", 0, "read"), ("x86_64", 73, "flock"), ("aarch64", 63, "read"), ("aarch64", 32, "flock")],
)
def test_calls_are_named_on_both_machines(machine: str, number: int, name: str) -> None:
    """The same number means another call on another machine."""
    assert name_of(number, machine) == name
    assert name_of(9999, machine) == "syscall 9999"
