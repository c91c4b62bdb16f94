"""Run small programs under the probe, as `ddetect launch` would, and read their pages."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ddetect_probe
import pytest
from ddetect_probe import lane, page, state

from tests.unit.stacks.targets import until

BOOTSTRAP = Path(ddetect_probe.__file__).parent / "bootstrap"


class Job:
    """A run directory and the environment of a job that ddetect watches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        for name in ("pages", "sock", "fault"):
            (self.run / name).mkdir(parents=True)
        self._started: list[subprocess.Popen[str]] = []

    def environment(self, *, probe: bool = True, path: str = "", **more: str) -> dict[str, str]:
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("DDETECT", "PYTHON", "RANK", "WORLD"))
        }
        entries = [str(BOOTSTRAP)] * probe + [path] * bool(path)
        kept.update(
            DDETECT_RUN_DIR=str(self.run), PYTHONPATH=os.pathsep.join(entries), OMP_NUM_THREADS="1", **more
        )
        return kept

    def write(self, name: str, text: str) -> Path:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def start(
        self, program: Path, *, probe: bool = True, python: str = sys.executable, path: str = "", **more: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [python, str(program)],
            env=self.environment(probe=probe, path=path, **more),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def finish(self, program: Path, **how: str | bool) -> subprocess.CompletedProcess[str]:
        process = self.start(program, **how)  # type: ignore[arg-type]
        out, err = process.communicate(timeout=160)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def pages(self) -> list[page.Page]:
        return [page.Page(str(path)) for path in sorted((self.run / "pages").glob("*.page"))]

    def page_of(self, pid: int) -> page.Page:
        (path,) = (self.run / "pages").glob(f"{pid}.*.page")
        return page.Page(str(path))

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.close()


FAKE_TORCH = """
import importlib.metadata
NAMES = {str(n): n for n in range(20)}
globals().update({"name_" + key: value for key, value in NAMES.items()})
"""


@pytest.fixture
def fake_torch(job: Job) -> str:
    """A folder with a module `torch` that has nothing to hook: enough to wake the probe."""
    return str(job.write("site/torch/__init__.py", FAKE_TORCH).parent.parent)


class Actor:
    """A thread that runs what it is given, and is awaited each time."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.tid = self(threading.get_native_id)

    @property
    def ident(self) -> int:
        return self._thread.ident or 0

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            self._answers.put(order())

    def __call__(self, order: Callable[..., Any], *args: Any) -> Any:
        self._orders.put(lambda: order(*args))
        return self._answers.get(timeout=60)

    def end(self) -> None:
        self._orders.put(None)
        self._thread.join(60)
        until(lambda: not os.path.exists(f"/proc/self/task/{self.tid}"))


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[page.Page]:
    """A page of its own, whose lane is the main thread's."""
    for name in ("raw", "slots", "writer", "run_dir", "main", "owner", "floor", "user_steps", "undecided"):
        monkeypatch.setattr(state, name, getattr(state, name))
    (tmp_path / "pages").mkdir()
    state.open_page(str(tmp_path), page.ROLE_RANK)
    assert state.writer is not None
    lane.starting()
    yield page.Page(state.writer.path)
    lane.begin()


@pytest.fixture
def actor(seen: page.Page) -> Iterator[Actor]:
    made = Actor()
    yield made
    made.end()


@pytest.fixture
def other(seen: page.Page) -> Iterator[Actor]:
    made = Actor()
    yield made
    made.end()
