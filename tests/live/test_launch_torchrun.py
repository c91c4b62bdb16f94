"""`ddetect launch torchrun ...` for real: exit codes, output and signals are torchrun's own; companions come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
LAUNCH = [sys.executable, "-m", "ddetect", "launch"]

TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.ones(4)
dist.all_reduce(value)
if dist.get_rank() == 0:
    print("sum", value.tolist(), flush=True)
    print("to stderr", file=sys.stderr, flush=True)
if sys.argv[1] == "raise" and dist.get_rank() == 1:
    os._exit(7)
if sys.argv[1] == "wait":
    open(sys.argv[2] + f".{dist.get_rank()}", "w").close()
    while not os.path.exists(sys.argv[2]):
        dist.all_reduce(value)
        time.sleep(0.05)
        value.fill_(1 if os.path.exists(sys.argv[2]) else 0)
        dist.all_reduce(value)
        if value.max() > 0:
            break
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[list[str]], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "DDETECT_OUT": str(tmp_path / "out")}

    def start_one(command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            env=environ,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until(condition: Callable[[], object], what: str, patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(0.05)


def test_output_of_a_healthy_job_is_byte_equal(
    start: Callable[[list[str]], subprocess.Popen[bytes]], script: Path
) -> None:
    """stdout and stderr under ddetect are those of torchrun alone."""
    job = [*TORCHRUN, str(script), "end"]
    alone, watched = start(job), start([*LAUNCH, *job])

    assert watched.communicate(timeout=120) == alone.communicate(timeout=120)
    assert (watched.returncode, alone.returncode) == (0, 0)


def test_rank_that_dies_gives_torchruns_exit_code(
    start: Callable[[list[str]], subprocess.Popen[bytes]], script: Path
) -> None:
    """torchrun reports a dead rank with its own code, and so do we."""
    job = [*TORCHRUN, str(script), "raise"]
    alone, watched = start(job), start([*LAUNCH, *job])
    alone.communicate(timeout=120)
    watched.communicate(timeout=120)

    assert watched.returncode == alone.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_torchrun_as_it_would_alone(
    start: Callable[[list[str]], subprocess.Popen[bytes]],
    script: Path,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    """The launcher passes it on once; torchrun shuts its ranks down and its exit code is ours."""
    codes = []
    for name, prefix in (("alone", []), ("watched", LAUNCH)):
        process = start([*prefix, *TORCHRUN, str(script), "wait", str(tmp_path / name)])
        until(lambda name=name: len(list(tmp_path.glob(f"{name}.[01]"))) == 2, "both ranks train")
        process.send_signal(number)
        process.communicate(timeout=120)
        codes.append(process.returncode if process.returncode >= 0 else 128 - process.returncode)

    assert codes[0] == codes[1]


def test_killed_companions_come_back_in_mid_job(
    start: Callable[[list[str]], subprocess.Popen[bytes]], script: Path, tmp_path: Path
) -> None:
    """kill -9 the agent, then the coordinator: each is there again, both ranks are seen, the job finishes untouched."""
    go = tmp_path / "go"
    mark = tmp_path / "run-dir"
    script.write_text(f"import os\nopen({str(mark)!r}, 'w').write(os.environ['DDETECT_RUN_DIR'])\n" + TRAIN)
    process = start([*LAUNCH, *TORCHRUN, str(script), "wait", str(go)])
    until(lambda: len(list(tmp_path.glob("go.[01]"))) == 2, "both ranks train")
    run = Path(mark.read_text())
    for name in ("agent", "coordinator"):
        lock = run / f"{name}.lock"
        until(lambda lock=lock: lock.exists() and lock.read_text().strip(), f"the {name} starts")
        pid = int(lock.read_text())
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid, lock=lock: int(lock.read_text().strip() or pid) != pid, f"a new {name} starts")
    status = run / "status.txt"
    status.unlink(missing_ok=True)
    until(
        lambda: status.exists() and "2/2 ranks" in status.read_text(), "the new coordinator sees both ranks"
    )
    go.touch()
    out, errors = process.communicate(timeout=120)

    assert (process.returncode, out, errors) == (0, b"sum [2.0, 2.0, 2.0, 2.0]\n", b"to stderr\n")
    assert not run.exists()
