"""The job under the launcher is the job alone: exit code, signals, streams, descriptors, terminal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launcher.conftest import Launcher, Terminal, until

# Counts the signals it gets, until one of them ends it; "ready" when it can.
COUNT = """
import os, signal, sys, time
got = []
for name in sys.argv[1].split(","):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(signal.Signals(number).name))
print("ready", flush=True)
while not got:
    time.sleep(0.02)
time.sleep(0.5)  # a second copy would come at once
print(",".join(got), flush=True)
sys.exit(5)
"""


@pytest.mark.parametrize("code", [0, 7, 255])
def test_exit_code_is_the_jobs(launcher: Launcher, code: int) -> None:
    """Whatever the job returns, we return."""
    assert launcher.run(launcher.python(f"raise SystemExit({code})")).returncode == code


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGABRT", "SIGSEGV"])
def test_job_killed_by_signal_gives_128_and_its_number(launcher: Launcher, name: str) -> None:
    """As a shell says it."""
    done = launcher.run(launcher.python(f"import os, signal; os.kill(os.getpid(), signal.{name})"))

    assert done.returncode == 128 + signal.Signals[name]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGWINCH"])
@pytest.mark.parametrize("whole_group", [False, True])
def test_signal_reaches_the_job_once(launcher: Launcher, name: str, whole_group: bool) -> None:
    """Sent to the launcher it is passed on; sent to the whole group the job has it already."""
    process = launcher.start(launcher.command(sys.executable, "-c", COUNT, name))
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    if whole_group:
        os.killpg(process.pid, signal.Signals[name])
    else:
        process.send_signal(signal.Signals[name])

    assert process.stdout.read() == f"{name}\n".encode()
    assert process.wait(60) == 5


def test_signal_that_the_job_ignores_is_no_ending(launcher: Launcher) -> None:
    """Under nohup a hang-up changes nothing, so nobody is told that the job was asked to end."""
    job = (
        "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    process = launcher.start(["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *launcher.python(job)])
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    until(lambda: launcher.pids("agent"), "the agent listens")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)  # taken after the other, which has the lower number
    assert process.stdout.readline() == b"heard\n"

    assert process.communicate(b"", timeout=60)[1] == b""
    assert process.returncode == 0
    told = [line[1].split(":")[1] for line in launcher.lines() if line[1].startswith("heard:")]
    assert told == ["status=0", "exit_code=0"]


MANY_DESCRIPTORS = """
import os, resource, signal
from ddetect_launcher.witness import Witness
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.dup(0) for _ in range(1100)]
os.close(1)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
witness = Witness()
os.kill(os.getpid(), signal.SIGUSR1)
alone = witness.group_got(signal.SIGUSR1)
os.killpg(0, signal.SIGUSR1)
os.write(2, repr((alone, witness.group_got(signal.SIGUSR1))).encode())
witness.close()
"""


@pytest.mark.parametrize("descriptors", [1100, 0])
def test_witness_answers_whatever_descriptors_it_gets(descriptors: int) -> None:
    """Above 1023 as well as on the number of a stdout that was closed."""
    code = MANY_DESCRIPTORS.replace("1100", str(descriptors))
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        check=False,
    )  # fmt: skip

    assert done.stderr == b"(False, True)"


LATE = """
import os, signal
from ddetect_launcher import witness
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
subject = witness.Witness()
os.killpg(0, signal.SIGUSR1)
os.kill(subject._pid, signal.SIGSTOP)
witness._ANSWER_S = 0.05
late = subject.group_got(signal.SIGUSR1)
os.kill(subject._pid, signal.SIGCONT)
witness._ANSWER_S = 60.0
os.write(2, repr((late, subject.group_got(signal.SIGUSR2))).encode())
subject.close()
"""


def test_late_answer_of_the_witness_is_not_taken_for_the_next_one() -> None:
    """It had no core when it was asked about one signal; asked about another, it says the truth about that one."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], stderr=subprocess.PIPE, start_new_session=True, check=False
    )

    assert done.stderr == b"(False, False)"


FREEZE = """
import os, signal, subprocess, sys
from ddetect_launcher.inbox import Inbox
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
inbox = Inbox([signal.SIGUSR1, signal.SIGTERM])
if sys.argv[1] == "without signalfd":
    inbox._watch = None
me = os.getpid()
freeze = f"sleep 0.1; kill -STOP {me}; sleep 0.7; kill -CONT {me}"
with subprocess.Popen(["sh", "-c", freeze]):
    frozen = inbox.next(0.4)
os.kill(me, signal.SIGUSR1)
os.kill(me, signal.SIGTERM)
print(frozen, *[got and signal.Signals(got.si_signo).name for got in (inbox.next(9), inbox.next(9), inbox.next(0))])
"""


@pytest.mark.parametrize("how", ["with signalfd", "without signalfd"])
def test_no_signal_is_made_up_when_the_time_is_up_during_a_freeze(how: str) -> None:
    """CPython's sigtimedwait then returns a siginfo of old memory; ours says that nothing came."""
    done = subprocess.run([sys.executable, "-c", FREEZE, how], capture_output=True, check=True, timeout=60)

    assert done.stdout == b"None SIGUSR1 SIGTERM None\n"


def test_freeze_of_everything_costs_no_signal_and_doubles_none(launcher: Launcher) -> None:
    """The whole group is stopped for longer than a tick and goes on: the witness is there for the next signal."""
    count = COUNT.replace("while not got", "while 'SIGUSR1' not in got")
    process = launcher.start(launcher.command(sys.executable, "-c", count, "SIGCONT,SIGUSR1"))
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    before = _group(process.pid)

    os.killpg(process.pid, signal.SIGSTOP)
    until(lambda: set(_group(process.pid).values()) == {"T"}, "all are frozen")
    time.sleep(1.2)  # more than two ticks of the launcher: its wait is over before it goes on
    os.killpg(process.pid, signal.SIGCONT)
    until(lambda: "T" not in _group(process.pid).values(), "all go on")
    time.sleep(0.2)  # a signal that the launcher made up would be on its way now
    during = _group(process.pid)
    os.killpg(process.pid, signal.SIGUSR1)

    assert process.stdout.read() == b"SIGCONT,SIGUSR1\n"
    assert process.wait(60) == 5
    assert (set(during), "Z" in during.values()) == (set(before), False)


def _group(group: int) -> dict[int, str]:
    """The states of a process group."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found[int(stat.parent.name)] = fields[0]
    return found


def test_signal_before_the_job_starts_is_not_lost(launcher: Launcher) -> None:
    """Signals are held from the first moment and handed to the job."""
    slow = "import signal,sys,time; print('ready',flush=True); time.sleep(600)"
    process = launcher.start(launcher.python(slow))
    until(launcher.run_dirs, "the launcher makes its run directory")
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 128 + signal.SIGTERM


def test_ctrl_c_reaches_the_job_once(
    launcher: Launcher, terminal: Callable[[list[str], dict[str, str]], Terminal]
) -> None:
    """The terminal signals the whole foreground group; the launcher adds nothing."""
    screen = terminal(launcher.command(sys.executable, "-c", COUNT, "SIGINT"), launcher.environ)
    screen.expect(b"ready")
    screen.type(b"\x03")

    assert screen.wait() == 5
    assert screen.seen.count(b"SIGINT") == 1


def test_ctrl_z_stops_and_fg_resumes(
    launcher: Launcher, terminal: Callable[[list[str], dict[str, str]], Terminal]
) -> None:
    """The shell sees a stopped job, and brings it back."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash for its job control")
    line = launcher.command(sys.executable, "-c", COUNT, "SIGINT")
    script = launcher.tmp_path / "line.sh"
    script.write_text("exec " + " ".join(f"'{word}'" for word in line) + "\n")
    screen = terminal([bash, "--norc", "--noprofile", "-i"], {**launcher.environ, "PS1": "prompt>"})
    screen.expect(b"prompt>")
    screen.type(f"bash {script}\n".encode())
    screen.expect(b"ready")
    screen.type(b"\x1a")
    screen.expect(b"Stopped")
    screen.type(b"fg\n")
    screen.expect(b"fg\r\n")
    until(lambda: _states(launcher.tmp_path) == {"S"}, "the job and its launcher run again")
    screen.type(b"\x03")
    screen.expect(b"SIGINT")
    screen.type(b"exit $?\n")

    assert screen.wait() == 5


def _states(marker: Path) -> set[str]:
    """States of the processes whose command line names this test's folder (the launcher)."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and str(marker).encode() in (folder / "cmdline").read_bytes():
                found.add((folder / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return found


def test_stdin_passes_through(launcher: Launcher) -> None:
    """The job reads what is piped into us."""
    assert launcher.run(launcher.command("cat"), input=b"a\0b\n" * 5000).stdout == b"a\0b\n" * 5000


def test_streams_are_byte_equal(launcher: Launcher) -> None:
    """With nothing to report we print nothing at all."""
    job = [
        sys.executable,
        "-c",
        "import os; os.write(1, b'out\\r\\n\\x00'); os.write(2, b'err'); os.write(1, b'z')",
    ]
    alone = subprocess.run(job, capture_output=True, check=True)
    watched = launcher.run(launcher.command(*job))

    assert (watched.stdout, watched.stderr) == (alone.stdout, alone.stderr)


def test_process_state_is_as_alone(launcher: Launcher) -> None:
    """Mask, ignored and caught signals, open descriptors, nice value and umask are handed down unchanged."""
    # grep itself is the job: a shell would clear the mask it was given
    looks = (
        ["grep", "-E", "^(Sig(Blk|Ign|Cgt)|Umask)", "/proc/self/status"],
        ["ls", "/proc/self/fd"],
        ["nice"],
    )
    for before in ("", "trap '' HUP INT QUIT CHLD; ", "exec 9</dev/null; umask 027; "):
        for look in looks:
            alone = launcher.run(["sh", "-c", f'{before}exec "$@"', "sh", *look])
            watched = launcher.run(["sh", "-c", f'{before}exec "$@"', "sh", *launcher.command(*look)])

            assert (watched.stdout, watched.returncode) == (alone.stdout, 0)


def test_environment_gains_three_names_and_nothing_else(launcher: Launcher) -> None:
    """Run directory, job, and the probe in front of PYTHONPATH."""
    show = "import os, json; print(json.dumps(sorted(os.environ.items())))"
    alone = dict(eval(launcher.run([sys.executable, "-c", show]).stdout))
    watched = dict(eval(launcher.run(launcher.python(show)).stdout))
    added = {key: value for key, value in watched.items() if alone.get(key) != value}

    assert set(added) == {"DDETECT_RUN_DIR", "DDETECT_JOB", "PYTHONPATH"}
    assert not set(alone) - set(watched)


def test_users_python_path_comes_after_the_probe(launcher: Launcher) -> None:
    """The user's folders stay, in their order."""
    launcher.environ["PYTHONPATH"] = "/a:/b"
    shown = (
        launcher.run(launcher.python("import os; print(os.environ['PYTHONPATH'])")).stdout.decode().strip()
    )

    assert shown.endswith("/ddetect_probe/bootstrap:/a:/b")


def test_probe_switched_off_leaves_the_python_path_alone(launcher: Launcher) -> None:
    """DDETECT_PROBE=0 means nothing of ours inside the rank."""
    launcher.environ["DDETECT_PROBE"] = "0"

    assert launcher.run(launcher.python("import os; print('PYTHONPATH' in os.environ)")).stdout == b"False\n"


def test_missing_program_is_127(launcher: Launcher) -> None:
    """One sentence names it."""
    for program in ("no-such-program-here", "./no/such/file"):
        done = launcher.run(launcher.command(program))

        assert done.returncode == 127
        assert program in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1


def test_not_executable_program_is_126(launcher: Launcher) -> None:
    """A file without x, or a folder."""
    script = launcher.tmp_path / "train.sh"
    script.write_text("#!/bin/sh\n")
    for program in (script, launcher.tmp_path):
        done = launcher.run(launcher.command(str(program)))

        assert done.returncode == 126
        assert done.stderr.count(b"\n") == 1


def test_script_without_interpreter_line_runs(launcher: Launcher) -> None:
    """As it does from a shell."""
    script = launcher.tmp_path / "train.sh"
    script.write_text("echo $1; exit 3\n")
    script.chmod(0o755)
    done = launcher.run(launcher.command(str(script), "hello"))

    assert (done.returncode, done.stdout) == (3, b"hello\n")


def test_broken_interpreter_line_is_126(launcher: Launcher) -> None:
    """What exec refuses after all is said, and leaves nothing behind."""
    script = launcher.tmp_path / "train.sh"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)

    assert launcher.run(launcher.command(str(script))).returncode == 126
    assert launcher.run_dirs() == []
