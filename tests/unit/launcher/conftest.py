"""Starts launchers with stand-ins and cleans up after them, also when a test fails."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE_S = 60.0


class Launcher:
    """Launches jobs with stand-in companions in a run base of its own."""

    def __init__(self, tmp_path: Path, run_base: Path) -> None:
        self.tmp_path = tmp_path
        self.run_base = run_base
        self.out = tmp_path / "out"
        self.journal = tmp_path / "journal"
        self.environ = {**os.environ, "DDETECT_RUN_BASE": str(run_base), "TERM": "xterm"}
        for name in ("DDETECT_RUN_DIR", "DDETECT_JOB", "DDETECT_TOKEN", "PYTHONPATH"):
            self.environ.pop(name, None)
        self._started: list[subprocess.Popen[bytes]] = []

    def command(self, *job: str, mode: str = "stay", out: str | None = None) -> list[str]:
        words = [sys.executable, str(HERE / "driver.py"), mode, str(self.journal), out or str(self.out)]
        return [*words, *(job or ("true",))]

    def python(self, code: str, **how: str) -> list[str]:
        return self.command(sys.executable, "-c", code, **how)

    def run(self, command: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
        how.setdefault("env", self.environ)
        return subprocess.run(command, capture_output=True, timeout=120, check=False, **how)  # type: ignore[call-overload,no-any-return]

    def start(self, command: list[str], **how: object) -> subprocess.Popen[bytes]:
        """A launcher in a group of its own, its output in pipes, ended after the test."""
        how = {
            "env": self.environ, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
            "process_group": 0, **how,
        }  # fmt: skip
        if sys.version_info < (3, 11):
            how.pop("process_group")
            how["start_new_session"] = True
        process: subprocess.Popen[bytes] = subprocess.Popen(command, **how)  # type: ignore[call-overload]
        self._started.append(process)
        return process

    def lines(self) -> list[list[str]]:
        return (
            [line.split() for line in self.journal.read_text().splitlines()] if self.journal.exists() else []
        )

    def pids(self, role: str, what: str = "started") -> list[int]:
        return [int(line[2]) for line in self.lines() if line[:2] == [role, what]]

    def run_dirs(self) -> list[Path]:
        return [path for path in self.run_base.glob("ddetect-*/*") if not path.name.startswith(".")]

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for role in ("agent", "coordinator"):
            for pid in self.pids(role):
                if alive(pid) and b"standin.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something that must come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.02)


class Terminal:
    """A pseudo-terminal with a program on it."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.seen = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, environ)

    def type(self, raw: bytes) -> None:
        os.write(self._master, raw)

    def expect(self, text: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"the terminal never showed {text!r}: {self.seen!r}")
            self.seen += self._read()

    def wait(self) -> int:
        """Read to the end; returns the exit code."""
        while raw := self._read():
            self.seen += raw
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bytes:
        try:
            return os.read(self._master, 65536)
        except OSError:
            return b""  # nobody holds the other side any more

    def close(self) -> None:
        os.close(self._master)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    # pytest's own folders are too deep for a unix socket path
    base = Path(f"/tmp/ddl-{os.getpid()}-{time.monotonic_ns() % 10**9}")
    base.mkdir()
    subject = Launcher(tmp_path, base)
    yield subject
    subject.end()
    subprocess.run(["rm", "-rf", str(base)], check=True)


@pytest.fixture
def terminal() -> Iterator[Callable[[list[str], dict[str, str]], Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(command: list[str], environ: dict[str, str]) -> Terminal:
        opened.append(Terminal(command, environ))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()
