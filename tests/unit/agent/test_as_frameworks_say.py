"""What a framework says about its ranks holds for the agent: whether they may be paused, whether they raise letters.

On real processes of a made-up framework, whose ranks are deaf to SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ddetect.agent.members import JobProcess
from ddetect.agent.node import Node
from ddetect.agent.sample import Sampler
from ddetect.frameworks.framework import Framework, NativeMode
from ddetect.messages import EndRanks, TakeEvidence
from ddetect.model import Role
from tests.unit.agent.processes import make_run_dir
from tests.unit.agent.test_sources import NoCensus
from tests.unit.stacks.targets import running

pytestmark = pytest.mark.usefixtures("unhurried")

CHOIR = Framework(
    "choir",
    raises_letters=True,
    native_mode=lambda world: NativeMode.ALL if world == 1 else NativeMode.NONE,
)
# Deaf to SIGTERM, as a rank is that waits inside its framework; its "probe" raises the letter.
SINGER = """
import signal, sys, time
from ddetect_probe import page
signal.signal(signal.SIGTERM, signal.SIG_IGN)
writer = page.PageWriter(sys.argv[1], page.ROLE_RANK)
writer.slots[page.S_RANK], writer.slots[page.S_WORLD] = int(sys.argv[2]), int(sys.argv[3])
writer.text("framework", sys.argv[4])
print("ready", flush=True)
while not writer.read_text("mailbox"):
    time.sleep(0.01)
print(writer.read_text("mailbox"), flush=True)
"""


@contextmanager
def watching(run_dir: str) -> Iterator[Node]:
    node = Node(run_dir, name="node-0", job="j", frameworks={"choir": CHOIR})
    try:
        yield node
    finally:
        node.close()


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    return make_run_dir(tmp_path)


@contextmanager
def singing(
    run_dir: str, rank: int, *, world: int = 2, framework: str = "choir"
) -> Iterator[subprocess.Popen[str]]:
    pages = os.path.join(run_dir, "pages")
    with running(SINGER, pages, str(rank), str(world), framework) as child:
        yield child


def test_rank_that_waits_is_asked_to_raise_the_verdict_before_it_is_ended(run_dir: str) -> None:
    """It leaves with our sentence; the one that nobody wrote to is ended by force."""
    order = EndRanks(0.2, "ddetect: rank 1 sleeps", (0,))
    with (
        watching(run_dir) as node,
        singing(run_dir, 0) as waiting,
        singing(run_dir, 1) as culprit,
    ):
        node.tick()
        node.answer(order)
        assert (waiting.wait(60), culprit.wait(60)) == (0, -signal.SIGKILL)
        assert waiting.stdout is not None
        assert waiting.stdout.read() == "abort ddetect: rank 1 sleeps\n"


def test_rank_whose_framework_cannot_raise_gets_no_letter(run_dir: str) -> None:
    """Nobody would read it, and everybody would wait for that."""
    with watching(run_dir) as node, singing(run_dir, 0, framework="torch") as deaf:
        node.tick()
        node.answer(EndRanks(0.2, "ddetect: rank 1 sleeps", (0,)))

        assert deaf.wait(60) == -signal.SIGKILL


def test_long_verdict_is_cut_to_the_mailbox(run_dir: str) -> None:
    """A summary of two kilobytes is a letter all the same."""
    with watching(run_dir) as node, singing(run_dir, 0) as waiting:
        node.tick()
        node.answer(EndRanks(0.2, "ddetect: " + "x" * 2048, (0,)))
        assert waiting.wait(60) == 0
        assert waiting.stdout is not None
        assert len(waiting.stdout.read()) == 512 - 16 + 1


@pytest.mark.parametrize(("world", "dumper"), [(1, "py-spy, libdw"), (2, "py-spy")])
def test_framework_says_how_native_stacks_are_read(run_dir: str, world: int, dumper: str) -> None:
    """A rank whose peers would take it for dead is never paused for C symbols, whoever asks for them."""
    with watching(run_dir) as node, singing(run_dir, 0, world=world) as child:
        node.tick()
        evidence = node.answer(TakeEvidence(1, (child.pid,)))
        assert evidence is not None
        sighting = evidence.look.sample.sightings[0]

    assert sighting.dumper == dumper


def test_process_without_a_page_is_of_the_framework_that_was_found(tmp_path: Path) -> None:
    """Attach has no probe to ask: what it found decides whether the process may be paused."""
    member = JobProcess(1, 1, Role.RANK, 0, world_size=2)
    census: Any = NoCensus(tmp_path)
    known = Sampler(census, (), frameworks={"choir": CHOIR}, framework="choir")
    unknown = Sampler(census, (), frameworks={"choir": CHOIR})
    try:
        assert (known.native_mode(member), unknown.native_mode(member)) == (
            NativeMode.NONE,
            NativeMode.PYTHON,
        )
    finally:
        known.close()
        unknown.close()
