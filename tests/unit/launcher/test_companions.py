"""The agent and the coordinator beside the job: started, restarted, heard out, ended; and what may go wrong."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.launcher.conftest import Launcher, Terminal, alive, until

# Runs until its stdin closes.
WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


def start_waiting(
    launcher: Launcher, mode: str = "stay", code: str = WAIT, **how: object
) -> subprocess.Popen[bytes]:
    """A job that runs until its stdin closes, with both companions up."""
    process = launcher.start(launcher.python(code, mode=mode), **how)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    until(lambda: launcher.pids("agent") and launcher.pids("coordinator"), "both companions start")
    return process


def finish(process: subprocess.Popen[bytes]) -> bytes:
    """Let the job end; returns stderr."""
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.close()
    errors = process.stderr.read()
    assert process.wait(60) == 0
    return errors


def test_companions_run_with_the_job_and_end_with_it(launcher: Launcher) -> None:
    """One of each; after the job neither they nor the run directory nor an empty output folder is left."""
    process = start_waiting(launcher)
    (run,) = launcher.run_dirs()
    assert (
        run.stat().st_mode & 0o777,
        {path.name for path in run.iterdir()} >= {"pages", "sock", "fault"},
    ) == (
        0o700,
        True,
    )
    assert finish(process) == b""

    assert [len(launcher.pids(role)) for role in ("agent", "coordinator")] == [1, 1]
    assert not any(alive(pid) for role in ("agent", "coordinator") for pid in launcher.pids(role))
    assert launcher.run_dirs() == []
    assert not launcher.out.exists()


def test_agent_is_heard_out_before_the_coordinator(launcher: Launcher) -> None:
    """The coordinator judges last, so that it hears how the ranks ended."""
    finish(start_waiting(launcher))

    assert [line[0] for line in launcher.lines() if line[1] == "told"] == ["agent", "coordinator"]


@pytest.mark.parametrize("role", ["agent", "coordinator"])
def test_killed_companion_is_started_again(launcher: Launcher, role: str) -> None:
    """kill -9 in mid-job costs a second of sight, and the job nothing."""
    process = start_waiting(launcher)
    os.kill(launcher.pids(role)[0], signal.SIGKILL)
    until(lambda: len(launcher.pids(role)) == 2, f"a second {role} starts")

    assert finish(process) == b""


def test_companions_that_crash_cost_a_sentence_each(launcher: Launcher) -> None:
    """A broken installation is said with its reason, the job runs, and the logs are kept."""
    process = launcher.start(launcher.python(WAIT, mode="crash"))
    for role in ("agent", "coordinator"):
        until(lambda role=role: len(launcher.pids(role, "crashed")) > 1, f"the {role} is tried again")
    errors = finish(process).decode()

    assert errors.count("the agent does not run (no grpc in this house)") == 1
    assert errors.count("\n") == 2
    assert "no grpc" in (launcher.out / "agent.log").read_text()


def test_companion_deaf_to_sigterm_is_ended(launcher: Launcher) -> None:
    """Nothing of ours outlives the job by more than a few seconds."""
    finish(start_waiting(launcher, mode="deaf"))

    assert not any(alive(pid) for role in ("agent", "coordinator") for pid in launcher.pids(role))
    assert launcher.run_dirs() == []


def test_launcher_killed_takes_its_companions_along(launcher: Launcher) -> None:
    """members.lock falls free with the launcher, though the job lives on: the job must not have inherited it."""
    read_end, write_end = os.pipe()
    process = start_waiting(launcher, stdin=read_end)
    process.kill()
    process.wait()
    pids = launcher.pids("agent") + launcher.pids("coordinator")
    until(lambda: not any(map(alive, pids)), "the companions end")
    os.close(read_end)
    os.close(write_end)

    assert {line[0] for line in launcher.lines() if line[1] == "alone"} == {"agent", "coordinator"}


def test_next_launch_removes_what_a_killed_one_left(launcher: Launcher) -> None:
    """A run directory whose lock nobody holds is cleaned up; one in use is not."""
    killed = start_waiting(launcher)
    killed.kill()
    killed.wait()
    for role in ("agent", "coordinator"):  # either may still have the lock in its hand
        until(lambda role=role: launcher.pids(role, "alone"), f"the {role} of the killed one ends")
    (left,) = launcher.run_dirs()
    running = start_waiting(launcher)

    assert not left.exists()
    launcher.run(launcher.command("true"))
    assert len(launcher.run_dirs()) == 1
    finish(running)


def test_two_jobs_do_not_meet(launcher: Launcher) -> None:
    """Each has a run directory and companions of its own."""
    first = start_waiting(launcher)
    second = launcher.start(launcher.python(WAIT))
    until(lambda: len(launcher.pids("agent")) == 2, "the second job's agent starts")

    assert len(launcher.run_dirs()) == 2
    assert (finish(first), finish(second)) == (b"", b"")


def test_ranks_of_one_mpi_job_share_companions(launcher: Launcher) -> None:
    """One agent for the node; it outlives the launcher that started it and ends with the last one."""
    launcher.environ |= {
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
        "PMIX_NAMESPACE": "77",
    }
    first = start_waiting(launcher)
    second = launcher.start(launcher.python(WAIT))
    assert second.stdout is not None
    assert second.stdout.readline() == b"ready\n"
    (run,) = launcher.run_dirs()
    finish(first)
    (agent,) = launcher.pids("agent")

    assert alive(agent)
    os.kill(agent, signal.SIGKILL)
    until(lambda: len(launcher.pids("agent")) == 2, "the other launcher starts the agent again")
    finish(second)
    assert not any(alive(pid) for role in ("agent", "coordinator") for pid in launcher.pids(role))
    assert not run.exists()


def test_workers_of_one_cluster_share_companions_and_keep_their_exit_codes(launcher: Launcher) -> None:
    """Two shells with a TF_CONFIG each; the first may end as it likes, and the other is watched on."""
    cluster = '"cluster": {"worker": ["localhost:4711", "localhost:4712"]}'
    launcher.environ["TF_CONFIG"] = f'{{{cluster}, "task": {{"type": "worker", "index": 0}}}}'
    second = start_waiting(launcher)
    (run,) = launcher.run_dirs()
    task = f'{{{cluster}, "task": {{"type": "worker", "index": 1}}}}'
    first = launcher.run(launcher.python("raise SystemExit(7)"), env={**launcher.environ, "TF_CONFIG": task})

    assert (first.returncode, first.stderr) == (7, b"")
    assert launcher.run_dirs() == [run]
    assert [len(launcher.pids(role)) for role in ("agent", "coordinator")] == [1, 1]
    assert alive(launcher.pids("agent")[0])
    assert finish(second) == b""
    assert not run.exists()


def test_job_with_parameter_servers_runs_alone_and_one_sentence_says_so(launcher: Launcher) -> None:
    """Its workers wait for orders all day: a watcher would cry wolf."""
    launcher.environ["TF_CONFIG"] = '{"cluster": {"chief": ["localhost:1"], "ps": ["localhost:2"]}}'
    done = launcher.run(launcher.python("import os; raise SystemExit(3 + ('DDETECT_RUN_DIR' in os.environ))"))

    assert done.returncode == 3
    assert done.stderr.decode().count("\n") == 1
    assert "ParameterServerStrategy is not judged yet); it runs as it would alone" in done.stderr.decode()
    assert (launcher.pids("agent"), launcher.run_dirs()) == ([], [])


def test_mpirun_starts_one_agent_for_its_ranks(launcher: Launcher) -> None:
    """`mpirun ddetect launch ...` for real."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("needs mpirun: apt-get install openmpi-bin")
    launcher.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Every rank waits for the others and for a companion: none may leave before the last has come.
    code = (
        "import os, sys, time\nfolder, journal = sys.argv[1:]\nopen(f'{folder}/rank-{os.getpid()}', 'w').close()\n"
        "while len([n for n in os.listdir(folder) if n[:5] == 'rank-']) < 3 or not os.path.exists(journal):\n"
        "    time.sleep(0.05)\nprint('x')"
    )
    rank = launcher.command(sys.executable, "-c", code, str(launcher.tmp_path), str(launcher.journal))
    done = launcher.run([mpirun, "--oversubscribe", "-n", "3", *rank])

    assert (done.returncode, done.stdout.count(b"x")) == (0, 3)
    assert len(launcher.pids("agent")) <= 1
    assert len(launcher.pids("coordinator")) <= 1
    assert launcher.lines()
    assert launcher.run_dirs() == []


def test_alarms_are_printed_once_in_order_and_the_summary_last(launcher: Launcher) -> None:
    """Alarms go to stderr whether or not somebody watches; what comes after the job's end is still heard."""
    process = start_waiting(launcher, mode="last-words")
    assert process.stderr is not None
    assert process.stderr.readline() == b"first alarm\n"

    assert finish(process) == b"second alarm\nof two lines\nddetect: see incident-001\n"


def test_status_line_is_painted_on_a_terminal_and_taken_away(
    launcher: Launcher, terminal: Callable[[list[str], dict[str, str]], Terminal]
) -> None:
    """A person sees how the job is; the last line is the job's."""
    screen = terminal(launcher.python("input(); print('done')"), launcher.environ)
    screen.expect(b"\r\x1b[Kddetect: all is well\r")
    screen.type(b"\n")

    assert screen.wait() == 0
    assert screen.seen.endswith(b"\r\x1b[K")


def heard(launcher: Launcher) -> list[str]:
    """What the agents have heard of the job's end, without whom it was about."""
    words = [line[1].split(":")[1] for line in launcher.lines() if line[1].startswith("heard:")]
    return [word for word in words if word]


def test_agent_hears_of_a_signal_before_the_job_does(launcher: Launcher) -> None:
    """A signal that is passed on is told, so that what dies of it is no incident; so is how it all ended."""
    code = f"import signal; signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True)); {WAIT}"
    process = start_waiting(launcher, code=code)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == b"heard\n"  # it must not come while Python shuts down
    until(lambda: heard(launcher), "the signal is told")
    assert heard(launcher) == ["signal=15"]
    finish(process)

    assert heard(launcher) == ["signal=15", "status=0", "exit_code=0"]


def test_wish_to_end_is_not_lost_when_the_job_dies_of_it_at_once(launcher: Launcher) -> None:
    """Both are told, in their order, however quickly the one follows the other."""
    process = start_waiting(launcher)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM

    assert heard(launcher) == ["signal=15", f"status={signal.SIGTERM}", f"exit_code={128 + signal.SIGTERM}"]


def test_agent_that_was_restarting_hears_it_after_all(launcher: Launcher) -> None:
    """While nobody listens nothing waits; who comes later is told again what was said."""
    code = f"import signal; signal.signal(signal.SIGTERM, lambda *_: print('heard', flush=True)); {WAIT}"
    process = start_waiting(launcher, code=code)
    os.kill(launcher.pids("agent")[0], signal.SIGKILL)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == b"heard\n"
    until(lambda: heard(launcher), "the second agent hears it")

    assert heard(launcher) == ["signal=15"]
    finish(process)


def test_job_without_an_agent_that_listens_ends_as_ever(launcher: Launcher) -> None:
    """No socket: the signal is passed on at once."""
    process = start_waiting(launcher, mode="no-ears")
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 128 + signal.SIGTERM


def test_unwritable_out_falls_back_and_says_where(launcher: Launcher) -> None:
    """/proc takes no folder, not even from root."""
    launcher.environ["TMPDIR"] = str(launcher.tmp_path)
    done = launcher.run(launcher.command("true", out="/proc/nope/out"))

    assert done.returncode == 0
    assert done.stderr.startswith(b"ddetect: cannot write to --out /proc/nope/out (")
    assert done.stderr.count(b"\n") == 1


def test_read_only_home_changes_nothing(launcher: Launcher) -> None:
    """We keep nothing at home."""
    launcher.environ["HOME"] = "/proc"
    done = launcher.run(launcher.command("true"))

    assert (done.returncode, done.stderr) == (0, b"")


def test_full_memory_folder_falls_back_and_says_so(launcher: Launcher) -> None:
    """No room in /dev/shm: the run directory goes to the temporary folder."""
    tiny = launcher.run_base / "shm"
    tiny.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tiny)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"needs to mount a tiny tmpfs (root): {mounted.stderr.decode().strip()}")
    try:
        launcher.environ |= {"DDETECT_RUN_BASE": str(tiny), "TMPDIR": str(launcher.run_base)}
        code = "import os; print(os.environ['DDETECT_RUN_DIR'])"
        done = launcher.run(launcher.python(code))
    finally:
        subprocess.run(["umount", str(tiny)], check=True)

    assert done.returncode == 0
    assert done.stdout.decode().startswith(str(launcher.run_base))
    assert b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_no_place_for_a_run_directory_still_runs_the_job(launcher: Launcher, tmp_path: Path) -> None:
    """Watching is given up in one sentence."""
    driver = (
        "import sys\nfrom ddetect_probe import rundir\nrundir.user_folders = lambda environ: ['/proc/ddetect']\n"
        "from ddetect_launcher.launch import launch\nsys.exit(launch(['sh', '-c', 'exit 4']))"
    )
    done = launcher.run([sys.executable, "-c", driver], cwd=tmp_path)

    assert done.returncode == 4
    assert done.stderr.startswith(b"ddetect: cannot watch this job (")
    assert done.stderr.count(b"\n") == 1
