"""The starter of TensorFlow's workers, without TensorFlow: one TF_CONFIG each, the worst exit code, no survivors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from ddetect.scenarios.scenario import TENSORFLOW_FOLDER
from tests.unit.stacks.targets import until

STARTER = TENSORFLOW_FOLDER / "start_workers.py"
SAYS_WHO_IT_IS = """
import os, sys
print(os.environ["TF_CONFIG"] + "\\n", end="", flush=True)
"""
# TensorFlow takes SIGTERM for an announcement and goes on.
GOES_ON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, beside another worker
time.sleep(60)
"""


def start(program: Path, text: str, *options: str) -> subprocess.Popen[str]:
    program.write_text(text)
    command = [sys.executable, str(STARTER), *options, str(program)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def told_by(job: subprocess.Popen[str]) -> list[dict]:
    output, _ = job.communicate(timeout=30)
    return [json.loads(line) for line in output.split("\n") if line]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_every_worker_has_an_address_and_a_number_of_its_own(tmp_path):
    """All know the same cluster."""
    told = told_by(start(tmp_path / "program.py", SAYS_WHO_IT_IS, "--workers", "3"))

    (cluster,) = {json.dumps(one["cluster"]) for one in told}
    assert len(set(json.loads(cluster)["worker"])) == 3
    assert sorted(one["task"]["index"] for one in told) == [0, 1, 2]
    assert {one["task"]["type"] for one in told} == {"worker"}


def test_first_task_is_the_chief_and_one_is_left_out(tmp_path):
    """The cluster has an address for the task that never comes."""
    told = told_by(
        start(tmp_path / "program.py", SAYS_WHO_IT_IS, "--workers", "3", "--chief", "--without", "2")
    )

    tasks = sorted((one["task"]["type"], one["task"]["index"]) for one in told)
    assert tasks == [("chief", 0), ("worker", 0)]
    assert len(told[0]["cluster"]["worker"]) == 2


def test_worst_exit_code_is_returned(tmp_path):
    """One worker that fails makes the job fail, a signal as a shell says it."""
    fails = "import json, os, sys; sys.exit(3 * json.loads(os.environ['TF_CONFIG'])['task']['index'])"
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    assert start(tmp_path / "fails.py", fails, "--workers", "3").wait(30) == 6
    assert start(tmp_path / "killed.py", killed, "--workers", "2").wait(30) == 128 + signal.SIGKILL


def test_workers_that_ignore_sigterm_end_with_the_starter(tmp_path):
    """However it ends: asked to, or killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        job = start(tmp_path / "program.py", GOES_ON, "--workers", "2")
        assert job.stdout is not None
        pids = [int(job.stdout.readline()) for _ in range(2)]

        job.send_signal(number)

        job.wait(20)
        until(lambda pids=pids: all(map(is_gone, pids)), within_s=10.0)
