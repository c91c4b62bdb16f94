"""Which line of an exception is kept: the probe notes candidates, the agent knows what is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ddetect_probe import page

from ddetect.agent.members import JobProcess
from ddetect.agent.pages import raised_in
from ddetect.agent.rows import role_of
from ddetect.frameworks import FRAMEWORKS
from ddetect.model import Frame, Role, Sighting, Thread
from ddetect.model.comms import PAGE_ROWS
from ddetect.model.homes import CodeHomes

SITE = "/venv/lib/python3.11/site-packages"
ACME = ["read", f"{SITE}/acme/io.py", 9]
TORCH = ["forward", f"{SITE}/torch/nn.py", 4]
MINE = ["train", "/job/train.py", 40]


class Told:
    """A page that knows an exception."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told

    def exception(self) -> Mapping[str, Any]:
        return self._told

    def header(self) -> tuple[int, ...]:
        return (0,) * 64


def raised_at(guess: list[Any], homes: CodeHomes = CodeHomes(), **more: Any) -> Frame | None:  # noqa: B008
    function, file, line = guess
    told = {"type": "OSError", "message": "x", "function": function, "file": file, "line": line, **more}
    found = raised_in(JobProcess(1, 1, Role.RANK, 0, page=Told(told)), homes)  # type: ignore[arg-type]
    assert found is not None
    return found.where


def test_line_of_an_exception_is_the_users_wherever_it_lies():
    """In the distribution that holds `__main__`, if the job's interpreter told so; else outside of site-packages."""
    frames = [TORCH, ACME, MINE]

    assert raised_at(MINE, frames=frames) == Frame(*MINE)
    assert raised_at(MINE, CodeHomes(user=(f"{SITE}/acme",)), frames=frames) == Frame(*ACME)


def test_exception_without_a_line_of_the_users_keeps_a_plain_librarys():
    """And where all is a framework's, the innermost: it tells that torch raised."""
    assert raised_at(TORCH, frames=[TORCH, ACME]) == Frame(*ACME)
    assert raised_at(TORCH, frames=[TORCH]) == Frame(*TORCH)


@pytest.mark.parametrize("frames", [None, 3, [], [3], [["f", "", 1]], [["f"]], {}])
def test_exception_of_an_older_probe_keeps_its_guess(frames: object):
    """Also where the frames are not as they should be."""
    assert raised_at(MINE, frames=frames) == Frame(*MINE)


@pytest.mark.parametrize(
    ("file", "role"),
    [
        ("torch/utils/data/_utils/worker.py", Role.LOADER_WORKER),
        ("torchdata/stateful_dataloader/worker.py", Role.LOADER_WORKER),
        ("acme/worker.py", Role.CHILD),
    ],
)
def test_child_in_the_loop_of_a_loader_is_its_worker(file: str, role: Role):
    """Torch's loader and torchdata's."""
    thread = Thread("MainThread", True, False, False, (Frame("_worker_loop", f"{SITE}/{file}", 1),))

    assert (
        role_of(JobProcess(2, 1, Role.CHILD, 0), Sighting("S", (thread,)), [FRAMEWORKS["torch"].worker_loop])
        is role
    )


def test_page_has_as_many_rows_as_the_judge_believes():
    """The probe stands alone, so the number stands twice: here both are held together."""
    assert page.P2P_ROWS == PAGE_ROWS
