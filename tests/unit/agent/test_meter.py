"""What threads did between looks: real programs, looked at by real dumpers, and told exactly."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest

from ddetect.agent.meter import MOST_ROWS, Meter
from ddetect.host.proc import read_run_ns, read_runs, read_task, read_tasks, read_tids
from ddetect.host.sockets import read_sockets
from ddetect.model import UNKNOWN, Role
from ddetect.stacks.pyspy import read_pyspy
from tests.unit.agent.looking import (
    BELOW,
    MAIN,
    Looker,
    all_wait,
    did,
    is_first,
    looking,
    moved_bytes,
    process,
)
from tests.unit.stacks.targets import running, until

pytestmark = pytest.mark.usefixtures("unhurried")
PIECE = 1 << 20


@pytest.fixture
def looker(tmp_path: Path) -> Iterator[Looker]:
    with looking(tmp_path) as looks:
        yield looks


# ---------------------------------------------------------------- turns on a CPU


BLOCKED = """
import threading
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, name="second", daemon=True).start()
print("ready", flush=True)
lock.acquire()
"""


def test_thread_in_a_lock_has_not_run_though_we_paused_it(looker: Looker) -> None:
    """Each dump makes every thread run twice: that is our doing, and none of it is told."""
    with running(BLOCKED) as child:
        all_wait(child.pid, 2, "futex")
        before = read_runs(child.pid, child.pid)[1]
        first = looker.look(process(child.pid))
        looks = [looker.look(process(child.pid)) for _ in range(3)]
        paused = read_runs(child.pid, child.pid)[1] - before

    assert is_first(first, child.pid)
    assert [did(look, child.pid) for look in looks] == [{}] * 3
    assert [moved_bytes(look, child.pid) for look in looks] == [0] * 3
    assert paused >= 8  # the dumps were real


def test_thread_that_spins_is_busy_all_the_time_it_gets(looker: Looker) -> None:
    """On a core of its own that is 1; what it waited for a core is the machine's doing."""
    with running("print('ready', flush=True)\nwhile True: pass") as child:
        looker.look(process(child.pid))
        begin, waited = time.monotonic(), read_run_ns(child.pid)[1]
        until(lambda: time.monotonic() - begin > 1.0)
        waited = read_run_ns(child.pid)[1] - waited
        look = looker.look(process(child.pid))

    length_s = look.sample.metered_s[0]
    assert did(look, child.pid)[MAIN].busy + waited / 1e9 / length_s == pytest.approx(1.0, abs=0.15)


def test_thread_that_polls_runs_and_does_next_to_nothing(looker: Looker) -> None:
    """Five times a second: it is there, and nobody takes it for work."""
    code = """
import threading
stop = threading.Event()
def poll():
    while not stop.wait(0.2): pass
threading.Thread(target=poll, name="poll").start()
print("ready", flush=True)
threading.Event().wait()
"""
    with running(code) as child:
        looker.look(process(child.pid))
        poller = read_tids(child.pid)[1]
        seen = read_runs(child.pid, poller)[1]
        until(lambda: read_runs(child.pid, poller)[1] >= seen + 4)
        rows = did(looker.look(process(child.pid)), child.pid)

    assert rows.keys() == {"poll"}
    assert rows["poll"].runs >= 4
    assert 0 < rows["poll"].busy < 0.01


def test_main_and_lanes_come_first_and_the_busiest_after_them(looker: Looker) -> None:
    """A process with very many threads has rows for some; the one that is judged is among them."""
    code = f"""
import threading, time
def spin():
    while True: sum(range(2000)); time.sleep(0.0001)
for _ in range({MOST_ROWS + 4}): threading.Thread(target=spin).start()
print("ready", flush=True)
while True: time.sleep(0.02)
"""
    with running(code) as child:
        looker.look(process(child.pid))
        seen = read_runs(child.pid, child.pid)[1]
        until(lambda: read_runs(child.pid, child.pid)[1] > seen + 5)
        look = looker.look(process(child.pid))

    assert len(look.efforts) == MOST_ROWS
    assert look.efforts.thread[0] == 0
    others = look.efforts.busy[1:].tolist()
    assert others == sorted(others, reverse=True)


NAMED = """
import ctypes, sys, threading
def poll():
    ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
    while not threading.Event().wait(0.01): pass
threading.Thread(target=poll, name="service").start()
print("ready", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("gloo_tcp_loop", False),
        ("pt_gloo_runloop", False),
        ("pt_nccl_watchdg", False),
        ("pt_workerserver", False),
        ("pt_tcpstore_uv", False),
        ("cuda-EvtHandlr", False),
        ("cuda00006000019", False),
        ("event_engine", False),
        ("grpc_global_tim", False),
        ("pt_main_thread", True),
        ("pt_autograd_0", True),
        ("pt_data_pin", True),
        ("python3", True),
    ],
)
def test_service_thread_is_known_by_its_name(looker: Looker, name: str, told: bool) -> None:
    """It runs for ever, whether the job moves or not: gloo's a hundred times a second."""
    with running(NAMED, name) as child:
        looker.look(process(child.pid))
        service = read_tids(child.pid)[1]
        seen = read_runs(child.pid, service)[1]
        until(lambda: read_runs(child.pid, service)[1] >= seen + 3)
        rows = did(looker.look(process(child.pid)), child.pid)

    assert ("service" in rows, BELOW in rows) == (told, False)


TICKING = """
import os, sys, threading, time
from ddetect_probe import beat, page, state
os.mkdir(sys.argv[1] + "/pages")
state.open_page(sys.argv[1], page.ROLE_RANK)
beat.PERIOD_S = 0.02
beat.each_tick.append(lambda: open(sys.argv[1] + "/file", "w").write("x" * 5000))
beat.start()
print("ready", flush=True)
threading.Event().wait()
"""


def test_tick_of_the_probe_is_nobodys_effort(looker: Looker, tmp_path: Path) -> None:
    """Our own thread runs in every rank; it is neither a row nor what is below Python."""
    with running(TICKING, str(tmp_path)) as child:
        looker.look(process(child.pid))
        _, tick = read_tids(child.pid)
        seen = read_runs(child.pid, tick)[1]
        until(lambda: read_runs(child.pid, tick)[1] >= seen + 5)
        look = looker.look(process(child.pid))
        assert did(look, child.pid) == {}
        assert (
            moved_bytes(look, child.pid) <= 5000
        )  # of five ticks and more; one may fall between two readings


def test_threads_below_python_are_one_row(looker: Looker) -> None:
    """A pool of C threads that multiplies for the main thread has no place in the sighting."""
    code = """
import os
os.environ["OPENBLAS_NUM_THREADS"] = "3"
import numpy
a = numpy.random.rand(300, 300)
print("ready", flush=True)
while True: a @ a
"""
    with running(code) as child:
        looker.look(process(child.pid))
        pool = read_tids(child.pid)[1:]
        seen = [read_runs(child.pid, tid)[0] for tid in pool]
        until(lambda: all(read_runs(child.pid, tid)[0] > at for tid, at in zip(pool, seen, strict=True)))
        rows = did(looker.look(process(child.pid)), child.pid)

    assert rows.keys() == {MAIN, BELOW}
    assert rows[BELOW].busy > 0


# ---------------------------------------------------------------- bytes


SENDS = """
import socket, sys, threading
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def send():
    while True: link.sendall(bytes(1 << 16))
upload = threading.Thread(target=send, name="upload")
upload.start()
print("ready", flush=True)
upload.join()
"""


@contextmanager
def peer_of(code: str) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """A program that is connected to us, and our end; its receive buffer is small and stays so."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        server.bind(("127.0.0.1", 0))
        server.listen()
        with running(code, str(server.getsockname()[1])) as child, server.accept()[0] as link:
            yield child, link


def test_upload_in_a_thread_shows_its_bytes_on_that_thread(looker: Looker) -> None:
    """Nothing else tells: /proc/PID/io does not count `send`, and the main thread only waits."""
    size = 20 * PIECE
    with peer_of(SENDS) as (child, link):
        sender = read_tids(child.pid)[1]

        def is_blocked() -> bool:
            task = read_task(child.pid, sender)
            return task is not None and task.syscall == "sendto"

        until(is_blocked)
        looker.look(process(child.pid))
        left = size
        while left:
            left -= len(link.recv(min(left, PIECE)))
        until(is_blocked)
        look = looker.look(process(child.pid))

    rows = did(look, child.pid)
    assert rows.keys() == {"upload"}
    assert rows["upload"].bytes == pytest.approx(size, rel=0.02)
    assert moved_bytes(look, child.pid) == pytest.approx(size, rel=0.02)
    assert rows["upload"].bytes_age_s == 0.0


RECEIVES = {
    "recv": "while link.recv(1 << 16): pass",
    "poll": "link.settimeout(3600)\nwhile link.recv(1 << 16): pass",
    "epoll": """
async def read():
    reader, _ = await asyncio.open_connection(sock=link)
    while await reader.read(1 << 16): pass
asyncio.run(read())
""",
}


@pytest.mark.parametrize("how", RECEIVES)
def test_download_in_the_main_thread_shows_its_bytes(looker: Looker, how: str) -> None:
    """Blocking, with a timeout (`poll`), in an event loop (`epoll`): met there once, the bytes are its own."""
    code = f"""
import asyncio, os, socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
print(os.fstat(link.fileno()).st_ino, flush=True)
{RECEIVES[how]}
"""
    size = 5 * PIECE
    with peer_of(code) as (child, link):
        assert child.stdout is not None
        inode = int(child.stdout.readline())
        all_wait(child.pid, 1, "recvfrom", "poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2")
        looker.look(process(child.pid))
        link.sendall(bytes(size))
        until(lambda: read_sockets().moved[inode] >= size)
        all_wait(child.pid, 1, "recvfrom", "poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2")
        rows = did(looker.look(process(child.pid)), child.pid)

    assert rows.keys() == {MAIN}
    assert rows[MAIN].bytes == pytest.approx(size, rel=0.02)


def test_file_written_by_a_thread_shows_its_bytes_on_that_thread(looker: Looker, tmp_path: Path) -> None:
    """And they are as old as the look that found them: later looks tell that it has stopped."""
    code = """
import sys, threading
def write():
    for line in sys.stdin:
        with open(sys.argv[1], "wb", buffering=0) as file: file.write(bytes(1 << 20))
        print("written", flush=True)
threading.Thread(target=write, name="saver").start()
print("ready", flush=True)
threading.Event().wait()
"""
    with running(code, str(tmp_path / "checkpoint")) as child:
        all_wait(child.pid, 2, "read", "futex")
        looker.look(process(child.pid))
        say(child, "written")
        all_wait(child.pid, 2, "read", "futex")
        looks = [looker.look(process(child.pid)) for _ in range(2)]

    rows, later = (did(look, child.pid) for look in looks)
    assert rows.keys() == later.keys() == {"saver"}
    assert PIECE <= rows["saver"].bytes <= 2.1 * PIECE  # what is written to a disk counts twice
    assert rows["saver"].bytes == later["saver"].bytes == moved_bytes(looks[0], child.pid)
    assert rows["saver"].bytes_age_s == 0.0 < later["saver"].bytes_age_s


def say(child: subprocess.Popen[str], answer: str) -> None:
    """Give it a line, and wait for its answer."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == f"{answer}\n"


INHERITS = """
import os, socket, sys, threading
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
child = os.fork()
if child == 0:
    threading.Event().wait()
print("ready", flush=True)
print(child, flush=True)
while link.recv(1 << 16): pass
"""


def test_child_that_only_inherited_a_socket_has_not_moved_its_bytes(looker: Looker) -> None:
    """fork hands on every descriptor of the rank: its traffic is the rank's."""
    with peer_of(INHERITS) as (rank, link):
        assert rank.stdout is not None
        forked = int(rank.stdout.readline())
        try:
            all_wait(rank.pid, 1, "recvfrom")
            all_wait(forked, 1, "futex")
            members = process(rank.pid), process(forked, Role.LOADER_WORKER)
            looker.look(*members)
            link.sendall(bytes(PIECE))
            until(lambda: read_task(rank.pid, rank.pid) and _received(link))
            all_wait(rank.pid, 1, "recvfrom")
            look = looker.look(*members)
        finally:
            os.kill(forked, 9)

    assert moved_bytes(look, rank.pid) == PIECE
    assert (moved_bytes(look, forked), did(look, forked)) == (0, {})


def _received(link: socket.socket) -> bool:
    """Whether all that we sent has arrived."""
    return read_sockets().moved[os.fstat(link.fileno()).st_ino] >= PIECE


# ---------------------------------------------------------------- processes


@pytest.mark.parametrize("program", [["sh", "-c", "echo ready; while :; do :; done"]])
def test_child_that_is_no_python_is_one_row(looker: Looker, program: list[str]) -> None:
    """Nobody knows which of its threads matters: the whole process is told."""
    with running(BLOCKED) as rank, subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            members = process(rank.pid), process(child.pid, Role.CHILD)
            looker.look(*members)
            seen = read_runs(child.pid, child.pid)[0]
            until(lambda: read_runs(child.pid, child.pid)[0] > seen + 100_000_000)
            look = looker.look(*members)
        finally:
            child.kill()

    rows = did(look, child.pid)
    assert rows.keys() == {BELOW}
    assert rows[BELOW].busy * look.sample.metered_s[1] >= 0.1


def test_python_child_that_computes_is_told_by_thread(looker: Looker) -> None:
    """A pool's worker is Python too: its main thread is the one that works."""
    with running(BLOCKED) as rank, running("print('ready', flush=True)\nwhile True: pass") as child:
        members = process(rank.pid), process(child.pid, Role.CHILD)
        looker.look(*members)
        seen = read_runs(child.pid, child.pid)[0]
        until(lambda: read_runs(child.pid, child.pid)[0] > seen + 100_000_000)
        look = looker.look(*members)

    assert did(look, child.pid).keys() == {MAIN}
    assert did(look, child.pid)[MAIN].busy * look.sample.metered_s[1] >= 0.1


def test_process_that_executes_itself_again_goes_on_where_it_was(looker: Looker) -> None:
    """It keeps its pid and its start time; its other threads are gone, and nobody misses them."""
    code = """
import os, sys, threading, time
if len(sys.argv) == 2:
    threading.Thread(target=threading.Event().wait, name="old", daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[1], "again"])
print("again", flush=True)
threading.Event().wait()
"""
    with running(code, code) as child:
        all_wait(child.pid, 2, "read", "futex")
        first = looker.look(process(child.pid))
        say(child, "again")
        all_wait(child.pid, 1, "futex")
        rows = did(looker.look(process(child.pid)), child.pid)
        assert child.stdin is not None

    assert is_first(first, child.pid)
    assert rows.keys() == {MAIN}
    assert rows[MAIN].runs > 0
    assert rows[MAIN].bytes >= 0


def test_thread_that_ended_between_the_looks_has_no_row(looker: Looker, tmp_path: Path) -> None:
    """There is nobody to point at, whatever it did before; what it wrote the process has moved."""
    code = """
import sys, threading
def write():
    for _ in range(2):
        sys.stdin.readline()
        with open(sys.argv[1], "wb") as file: file.write(bytes(1 << 20))
        print("written", flush=True)
thread = threading.Thread(target=write, name="brief")
thread.start()
print("ready", flush=True)
thread.join()
threading.Event().wait()
"""
    with running(code, str(tmp_path / "file")) as child:
        all_wait(child.pid, 2, "read", "futex")
        looker.look(process(child.pid))
        say(child, "written")
        all_wait(child.pid, 2, "read", "futex")
        before = looker.look(process(child.pid))
        say(child, "written")
        all_wait(child.pid, 1, "futex")
        after = looker.look(process(child.pid))

    assert did(before, child.pid).keys() == {"brief"}
    assert did(after, child.pid).keys() == {MAIN}
    assert moved_bytes(after, child.pid) >= moved_bytes(before, child.pid) + PIECE


def test_thread_that_began_between_the_looks_is_told_with_all_it_did(looker: Looker) -> None:
    """It has done all of it since."""
    code = """
import sys, threading
def work():
    for _ in range(50): sum(range(100_000))
    print("worked", flush=True)
    threading.Event().wait()
print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=work, name="new").start()
threading.Event().wait()
"""
    with running(code) as child:
        all_wait(child.pid, 1, "read")
        looker.look(process(child.pid))
        say(child, "worked")
        all_wait(child.pid, 2, "futex")
        cpu_ns = read_runs(child.pid, read_tids(child.pid)[1])[0]
        look = looker.look(process(child.pid))

    assert did(look, child.pid)["new"].busy * look.sample.metered_s[0] == pytest.approx(cpu_ns / 1e9)


# ---------------------------------------------------------------- memory


class Clock:
    """Time as a test wants it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_older_than_the_window_is_forgotten() -> None:
    """A look that comes too late is a first one; a stretch that began too long ago is no longer told."""
    clock = Clock()
    meter = Meter(clock=clock)
    lengths = []
    with running(BLOCKED) as child:
        for gap in (0.0, 10.0, 15.0, 20.0, 31.0, 5.0):
            clock.now += gap
            lengths.append(meter.read(process(child.pid), 0.0).metered({}).length_s)

    assert lengths == pytest.approx([float("nan"), 10.0, 25.0, 20.0, float("nan"), 5.0], nan_ok=True)


def test_processes_that_are_gone_are_forgotten() -> None:
    """Loader workers come and go with every epoch, for weeks."""
    clock = Clock()
    meter = Meter(clock=clock)
    sizes = []
    with running(BLOCKED) as rank:
        for epoch in range(3):
            with running(BLOCKED) as worker:
                meter.read(process(worker.pid), 0.0)
            meter.read(process(rank.pid), 0.0)
            sizes.append(len(meter))
            clock.now += 20.0 * (epoch + 1)

    assert sizes == [2, 3, 2]


def test_threads_that_are_gone_are_forgotten() -> None:
    """A thread for each batch must not become a row for each batch."""
    code = """
import sys, threading
print("ready", flush=True)
for line in sys.stdin:
    thread = threading.Thread(target=sum, args=(range(1000),))
    thread.start()
    thread.join()
    print("joined", flush=True)
"""
    meter = Meter()
    with running(code) as child:
        for _ in range(20):
            say(child, "joined")
            all_wait(child.pid, 1, "read")
            metering = meter.read(process(child.pid), 0.0)
        assert list(metering.memory.last.threads) == [child.pid]
        assert {tid for one in metering.memory.window.stretches for tid in one.threads} == {child.pid}


def test_process_that_cannot_be_read_was_not_metered() -> None:
    """Gone is neither still nor busy."""
    meter = Meter()
    with running(BLOCKED) as child:
        member = process(child.pid)
        meter.read(member, 0.0)

    assert meter.read(member, 0.0).metered({}).efforts == ()


def test_pause_of_one_look_does_not_count_for_another() -> None:
    """Two orders at a time, or a look that takes too long: what the first has woken up is not what the thread did."""
    meter = Meter()
    with running(BLOCKED) as child:
        all_wait(child.pid, 2, "futex")
        member, places = process(child.pid), {child.pid: 0}
        meter.read(member, 0.0)
        with meter.asking(member, 0.0, read_tasks(child.pid)) as slow:
            read_pyspy(child.pid, blocking=True, timeout_s=60)
            all_wait(child.pid, 2, "futex")
            with meter.asking(member, 0.0, read_tasks(child.pid)) as quick:
                read_pyspy(child.pid, blocking=True, timeout_s=60)
        after = meter.read(member, 0.0)
        told = [one.metered(places) for one in (slow, quick, after)]

    assert [one.efforts for one in told] == [()] * 3
    assert told[-1].length_s > 0


def test_looks_at_one_process_may_meet() -> None:
    """From as many threads as there are: nobody fails, and nothing is made up."""
    meter = Meter()
    with running(BLOCKED) as child:
        all_wait(child.pid, 2, "futex")

        def look(_: int) -> int:
            with meter.asking(process(child.pid), 0.0) as metering:
                pass
            return len(metering.metered({child.pid: 0}).efforts)

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(look, range(64))) == {0}
        assert meter.read(process(child.pid), 0.0).metered({}).length_s > 0


def _meter_as_nobody(pid: int, answer: object) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    meter = Meter()
    meter.read(process(pid), 0.0)
    seen = read_runs(pid, pid)[1]
    until(lambda: read_runs(pid, pid)[1] > seen + 2)
    answer.put(meter.read(process(pid), 0.0).metered({pid: 0}))  # type: ignore[attr-defined]


def test_turns_are_told_without_the_rights_of_ptrace_and_bytes_are_unknown() -> None:
    """Where the kernel forbids more, it is still known who ran; bytes are not zero then, but unknown."""
    code = """
import ctypes, time
ctypes.CDLL(None).prctl(4, 0)  # not dumpable: closed even to its own user
print("ready", flush=True)
while True: time.sleep(0.01)
"""
    context = get_context("fork")
    answer = context.SimpleQueue()
    with running(code) as child:
        nobody = context.Process(target=_meter_as_nobody, args=(child.pid, answer))
        nobody.start()
        try:
            metered = answer.get()
        finally:
            nobody.join()

    (row,) = metered.efforts
    assert (row.thread, row.bytes, metered.moved_bytes) == (0, UNKNOWN, UNKNOWN)
    assert row.runs > 0
