from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from ddetect_probe import page

from ddetect.stacks.pyspy import read_pyspy
from tests.unit.probe.conftest import Job
from tests.unit.stacks.targets import until

# Python 3.12 warns a program that forks while it has threads, and our beat is one of them.
MAY_FORK = {"PYTHONWARNINGS": "ignore:This process:DeprecationWarning"}

RAISES = """
import torch, sys

def read_shard(name):
    raise ValueError("bad shard " + name)

def main():
    sys.stdout.write("begin\\n")
    read_shard("x7")

main()
"""


def await_page(job: Job, pid: int) -> page.Page:
    until(lambda: list((job.run / "pages").glob(f"{pid}.*.page")))
    return job.page_of(pid)


def test_uncaught_exception_is_in_the_page_and_printed_as_ever(job: Job, fake_torch: str) -> None:
    """Type, message and the user's innermost line are kept; stdout, stderr and exit code are unchanged."""
    program = job.write("train.py", RAISES)

    plain = job.finish(program, probe=False, path=fake_torch, RANK="0")
    watched = job.finish(program, path=fake_torch, RANK="0")

    assert (watched.returncode, watched.stdout, watched.stderr) == (
        plain.returncode,
        plain.stdout,
        plain.stderr,
    )
    (seen,) = job.pages()
    assert seen.exception() == {
        "type": "ValueError",
        "message": "bad shard x7",
        "function": "read_shard",
        "file": str(program),
        "line": 5,
    }
    assert seen.header()[page.S_EXIT] == page.RAISED


THROUGH_PACKAGES = """
import torch, inner, outer

def load():
    outer.call(parse)

def parse():
    inner.parse()

load()
"""
OUTER = "def call(do):\n    again(do)\ndef again(do):\n    do()\n"
INNER = "import json\ndef parse():\n    json.loads('{')\n"


def test_exception_is_noted_with_the_innermost_frame_of_each_package(job: Job, fake_torch: str) -> None:
    """Whose they are is not known in the rank; its own guess is what lies outside of site-packages."""
    outer = job.write("lib/site-packages/outer/__init__.py", OUTER)
    inner = job.write("lib/site-packages/inner.py", INNER)
    program = job.write("train.py", THROUGH_PACKAGES)

    job.finish(program, path=f"{fake_torch}:{inner.parent}", RANK="0")

    (seen,) = job.pages()
    told = seen.exception() or {}
    assert (told["function"], told["file"], told["line"]) == ("parse", str(program), 8)
    assert told["frames"] == [["parse", str(inner), 3], ["parse", str(program), 8], ["again", str(outer), 4]]


def test_exception_through_many_packages_stays_readable(job: Job, fake_torch: str) -> None:
    """Where the page has no room for all frames there are fewer, and never half a text."""
    folder = job.folder / ("deep" * 30) / "site-packages"
    for number in range(12):
        inner = f"import p{number + 1}\ndef call():\n    p{number + 1}.call()\n"
        job.write(
            str(folder / f"p{number}.py"),
            inner if number < 11 else "def call():\n    raise OSError('\\\\' * 900)\n",
        )
    program = job.write("train.py", "import torch, p0\np0.call()\n")

    job.finish(program, path=f"{fake_torch}:{folder}", RANK="0")

    (seen,) = job.pages()
    told = seen.exception() or {}
    assert (told["type"], told["file"]) == ("OSError", str(program))
    assert 0 < len(told["frames"]) < 8
    assert told["frames"][0][1] == str(folder / "p11.py")[-200:]


def test_exception_in_a_thread_is_kept_but_is_no_exit(job: Job, fake_torch: str) -> None:
    """The process lives on after a thread's exception, and the page says both."""
    program = job.write(
        "train.py",
        "import threading, torch\n"
        "def work():\n    raise KeyError('lost')\n"
        "t = threading.Thread(target=work)\nt.start()\nt.join()\n",
    )

    plain = job.finish(program, probe=False, path=fake_torch)
    watched = job.finish(program, path=fake_torch)

    assert watched.stderr == plain.stderr
    (seen,) = job.pages()
    assert (seen.exception() or {})["type"] == "KeyError"
    assert seen.header()[page.S_EXIT] == page.EXITED


def test_thread_that_holds_up_the_exit_shows_as_exiting(job: Job, fake_torch: str) -> None:
    """Main is done, a non-daemon thread is not: the page says EXITING while Python waits for it."""
    program = job.write(
        "train.py",
        "import sys, threading, torch\nthreading.Thread(target=sys.stdin.read).start()\nprint('ready', flush=True)\n",
    )
    process = job.start(program, path=fake_torch, RANK="0")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    seen = await_page(job, process.pid)

    until(lambda: seen.lanes()[0].phase == page.EXITING)

    assert seen.header()[page.S_EXIT] == page.ALIVE
    process.communicate("", timeout=60)
    assert seen.header()[page.S_EXIT] == page.EXITED


TRAINS_IN_A_THREAD = """
import sys, threading, torch
from ddetect_probe import lane, page

def train():
    token = lane.enter_phase(page.COLLECTIVE)
    print(threading.get_native_id(), flush=True)
    sys.stdin.readline()
    lane.leave_phase(token)
    sys.stdin.readline()

threading.Thread(target=train).start()
"""


def test_main_thread_that_just_ends_does_not_end_the_training(job: Job, fake_torch: str) -> None:
    """It never joins; Python does. The lane is the training thread's until that one is done."""
    process = job.start(job.write("train.py", TRAINS_IN_A_THREAD), path=fake_torch, RANK="0")
    assert process.stdout is not None
    assert process.stdin is not None
    tid = int(process.stdout.readline())
    seen = await_page(job, process.pid)
    until(lambda: "_shutdown" in functions_of(process.pid))

    inside = seen.lanes()[0].phase, seen.lanes()[0].tid
    process.stdin.write("\n")
    process.stdin.flush()
    until(lambda: seen.lanes()[0].phase == page.OTHER)
    ticks = seen.header()[page.S_TICKS]
    until(lambda: seen.header()[page.S_TICKS] > ticks + 2)
    between = seen.lanes()[0].phase, seen.lanes()[0].tid
    process.communicate("\n", timeout=60)

    assert (inside, between) == ((page.COLLECTIVE, tid), (page.OTHER, tid))
    assert (seen.lanes()[0].phase, seen.header()[page.S_EXIT]) == (page.EXITING, page.EXITED)


def functions_of(pid: int) -> set[str]:
    """The functions that its threads are in."""
    seen = read_pyspy(pid, blocking=True, timeout_s=30)
    return {frame.function for one in seen for frame in one.thread.stack}


FORKS_IN_A_THREAD = """
import os, sys, threading, torch
from ddetect_probe import lane, page, state

def train():
    token = lane.enter_phase(page.DATA)
    child = os.fork()
    if child == 0:
        print(state.owner == threading.get_ident(), state.floor, lane.others, flush=True)
        lane.leave_phase(token)
        lane.enter_phase(page.COLLECTIVE)
        print(os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    os.waitpid(child, 0)

lane.enter_phase(page.P2P)
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def test_child_that_a_thread_forks_has_that_thread_in_its_lane(job: Job, fake_torch: str) -> None:
    """Only the thread that forked is in the child, and it is the main one there."""
    process = job.start(job.write("train.py", FORKS_IN_A_THREAD), path=fake_torch, RANK="0", **MAY_FORK)
    assert process.stdout is not None
    assert process.stdout.readline() == "True 0 {}\n"
    child = int(process.stdout.readline())

    (row,) = await_page(job, child).lanes()

    assert (row.phase, row.tid) == (page.COLLECTIVE, child)
    assert job.page_of(process.pid).lanes()[0].phase == page.P2P
    assert process.communicate("", timeout=60)[1] == ""


@pytest.mark.parametrize(("status", "said"), [(0, page.EXITED), (3, page.ALIVE)])
def test_hard_exit_with_success_does_not_look_killed(
    job: Job, fake_torch: str, status: int, said: int
) -> None:
    """os._exit skips every hook; success is written down, of anything else only the code is told."""
    program = job.write("train.py", f"import os, torch\nos._exit({status})\n")

    assert job.finish(program, path=fake_torch, RANK="0").returncode == status

    (seen,) = job.pages()
    assert (seen.header()[page.S_EXIT], seen.header()[page.S_EXIT_CODE] - 1) == (said, status)


LEAVES_A_CHILD = """
import multiprocessing, os, sys, torch

def leave(code):
    if code == "hard":
        os._exit(7)
    sys.exit(code)

if __name__ == "__main__":
    for code in (None, 0, 3, "no shards", "hard"):
        child = multiprocessing.get_context(sys.argv[1]).Process(target=leave, args=(code,))
        child.start()
        print(child.pid, flush=True)
        child.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_that_leaves_says_with_what_code(job: Job, fake_torch: str, method: str) -> None:
    """Its parent waits for it at once: on most kernels nobody else is told."""
    program = job.write("train.py", LEAVES_A_CHILD.replace("sys.argv[1]", repr(method)))
    process = job.start(program, path=fake_torch, RANK="0")
    pids = [int(line) for line in process.communicate(timeout=120)[0].split()]

    assert [job.page_of(pid).header()[page.S_EXIT_CODE] - 1 for pid in pids] == [0, 0, 3, 1, 7]


FORKS = """
import os, sys, torch
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.waitpid(child, 0)
"""


def test_forked_child_has_a_page_of_its_own(job: Job, fake_torch: str) -> None:
    """Same rank, role child, parent named, no tick; the parent's page is untouched."""
    process = job.start(job.write("train.py", FORKS), path=fake_torch, RANK="5", WORLD_SIZE="8", **MAY_FORK)
    assert process.stdout is not None
    child = int(process.stdout.readline())

    seen = await_page(job, child)
    until(lambda: seen.header()[page.S_RANK] == 5)  # written after the page is there
    header = seen.header()

    assert (header[page.S_ROLE], header[page.S_RANK]) == (page.ROLE_CHILD, 5)
    assert (header[page.S_PID], header[page.S_PARENT]) == (child, process.pid)
    assert header[page.S_TICKS] == 0
    assert job.page_of(process.pid).header()[page.S_ROLE] == page.ROLE_RANK
    assert process.communicate("", timeout=60)[1] == ""


STANDS = "import sys, torch\nprint('ready', flush=True)\nsys.stdin.read()\n"


def test_fault_signal_writes_stacks_to_the_file_and_the_job_goes_on(job: Job, fake_torch: str) -> None:
    """Where ptrace is forbidden, the registered signal is the way to a stack."""
    process = job.start(job.write("train.py", STANDS), path=fake_torch, RANK="0")
    assert process.stdout is not None
    process.stdout.readline()
    number = await_page(job, process.pid).header()[page.S_FAULT_SIGNAL]
    assert number > 0

    os.kill(process.pid, number)

    written = job.run / "fault" / f"{process.pid}.fault"
    until(lambda: "train.py" in written.read_text())
    assert process.communicate("", timeout=60)[1] == ""
    assert process.returncode == 0


@pytest.mark.parametrize(
    "taken", ["signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "faulthandler.register(signal.SIGUSR1)"]
)
def test_signal_that_is_taken_is_left_alone(job: Job, fake_torch: str, taken: str) -> None:
    """Whoever was there first keeps the signal, whether in Python or in C."""
    program = job.write("train.py", f"import faulthandler, signal\n{taken}\nimport torch\n")

    done = job.finish(program, path=fake_torch, DDETECT_FAULT_SIGNAL="USR1")

    assert (done.returncode, done.stderr) == (0, "")
    (seen,) = job.pages()
    assert seen.header()[page.S_FAULT_SIGNAL] == 0


def test_chosen_signal_is_the_one_registered(job: Job, fake_torch: str) -> None:
    """DDETECT_FAULT_SIGNAL takes a name or a number."""
    job.finish(job.write("train.py", "import torch"), path=fake_torch, DDETECT_FAULT_SIGNAL="USR2")

    (seen,) = job.pages()
    assert seen.header()[page.S_FAULT_SIGNAL] == signal.SIGUSR2


def test_killed_process_leaves_its_page(job: Job, fake_torch: str) -> None:
    """After a SIGKILL the page is the last word: alive, with the phase it was in."""
    process = job.start(job.write("train.py", STANDS), path=fake_torch, RANK="0")
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()

    seen = job.page_of(process.pid)

    assert (seen.header()[page.S_EXIT], seen.lanes()[0].phase) == (page.ALIVE, page.STARTING)
    assert Path(seen.path).exists()


def test_reason_of_a_long_message_survives_an_emoji_at_its_end(job: Job, fake_torch: str) -> None:
    """gloo ends its errors with one: the text before it, which tells cause from consequence, is kept."""
    message = "[/" + "x" * 70 + "/pair.cc:553] Connection closed by peer. GLHF! \U0001f3d6\ufe0f"
    program = job.write("train.py", f"import torch\nraise RuntimeError({message!r})\n")

    job.finish(program, path=fake_torch, RANK="0")

    (seen,) = job.pages()
    told = seen.exception()
    assert told is not None
    assert told["message"] == message


JOINS = """
import os, signal, threading, time, torch
from ddetect_probe import page, state

seen = page.Page(state.writer.path)
while not seen.header()[page.S_TICKS]:
    time.sleep(0.01)
print(threading.enumerate() == [threading.main_thread()])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(0.1)
print(signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR1})
"""


def test_tick_is_no_thread_to_join_and_takes_no_signal(job: Job, fake_torch: str) -> None:
    """Scripts join all threads they find, and wait for signals that no other thread may take."""
    done = job.finish(job.write("train.py", JOINS), path=fake_torch, RANK="0")

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n" * 3, "")


def test_exception_without_a_message_in_a_folder_that_is_gone_is_told_all_the_same(
    job: Job, fake_torch: str
) -> None:
    """Its __str__ is foreign code and the working directory may be deleted: type and function are still kept."""
    program = job.write(
        "train.py",
        "import os, torch\n"
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "exec(compile('def work():\\n    raise Odd()', 'relative.py', 'exec'))\nwork()\n",
    )

    plain = job.finish(program, probe=False, path=fake_torch)
    watched = job.finish(program, path=fake_torch, RANK="0")

    assert (watched.returncode, watched.stderr) == (plain.returncode, plain.stderr)
    (seen,) = job.pages()
    told = seen.exception() or {}
    assert (told["type"], told["message"], told["function"]) == ("Odd", "", "work")


DAEMON = """
import faulthandler, os, time, torch
from ddetect_probe import page, state

# A page.Page here would hold a descriptor of its own.
number = state.slots[page.S_FAULT_SIGNAL]
os.closerange(3, 64)
files = [open(f"log{n}", "w") for n in range(8)]
if os.fork() == 0:
    for file in files:
        file.write("child ")
        file.flush()
    os._exit(0)
os.wait()
while state.slots[page.S_FAULT_SIGNAL]:
    time.sleep(0.01)
ticks = state.slots[page.S_TICKS]
while state.slots[page.S_TICKS] < ticks + 3:
    time.sleep(0.01)
if faulthandler.unregister(number):
    print("it was still registered")
for file in files:
    file.write("parent")
"""


def test_descriptors_that_a_daemon_closed_are_the_jobs(job: Job, fake_torch: str) -> None:
    """Its files get our numbers: nothing of ours writes to them or closes them, in a forked child or at exit."""
    done = job.finish(job.write("train.py", DAEMON), path=fake_torch, RANK="0", **MAY_FORK)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {(job.folder / f"log{n}").read_text() for n in range(8)} == {"child parent"}
