"""What reads a process: one interface, and a slow source never costs what needs no waiting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ddetect.agent import sample
from ddetect.agent.members import JobProcess
from ddetect.agent.sample import Sampler
from ddetect.agent.sources import PageSource, Reading
from ddetect.host.proc import read_stat
from ddetect.messages import TakeEvidence
from ddetect.model import Comms, Group, Role
from tests.unit.frameworks.swarm import HOLDERS, SwarmSource


class Silent:
    """A recorder that does not answer for a while."""

    what = "collectives"
    waits = True
    of = ""

    def read(self, process: JobProcess) -> Reading:
        time.sleep(1.0)
        return Reading(Comms(groups=(Group("late", "0"),)))


class Quick(PageSource):
    """A page that can be read in no time."""

    def read(self, process: JobProcess) -> Reading:
        return Reading(Comms(groups=(Group("page", str(process.rank)),)))


class NoCensus:
    """Knows only where the run directory is."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = str(run_dir)


@pytest.fixture
def processes() -> list[JobProcess]:
    """Ranks of one process that is this one: nobody looks into it."""
    stat = read_stat(1)
    ticks = stat.start_ticks if stat is not None else 0
    return [JobProcess(100_000_000 + rank, ticks, Role.RANK, rank) for rank in range(16)]


def looked(tmp_path: Path, processes: list[JobProcess], *sources: Any) -> Any:
    sampler = Sampler(NoCensus(tmp_path), sources)  # type: ignore[arg-type]
    try:
        return sampler.take(TakeEvidence(1), processes, []).look
    finally:
        sampler.close()


def test_page_is_read_though_every_recorder_is_silent(
    tmp_path: Path, processes: list[JobProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen silent recorders take all the threads there are; what the pages say is there all the same."""
    monkeypatch.setattr(sample, "_PATIENCE_S", 0.3)

    look = looked(tmp_path, processes, Silent(), Quick())

    assert {group.name for group in look.comms.groups if group.backend == "page"} == {
        str(n) for n in range(16)
    }
    late = [item for item in look.unread if item.reason.startswith("collectives: ")]
    assert sorted(rank for item in late for rank in item.ranks) == list(range(16))


def test_source_from_outside_the_package_is_read_and_missed(
    tmp_path: Path, processes: list[JobProcess]
) -> None:
    """Its rows are in the look, and what it cannot read is a row with its reason."""
    source = SwarmSource({0: ("pull", HOLDERS)}, silent=frozenset({2}))

    look = looked(tmp_path, processes[:4], source)

    assert [look.comms.calls[at].op for at in look.comms.ops.call] == ["pull"]
    assert [(item.ranks, item.reason) for item in look.unread if item.reason.startswith("calls")] == [
        ((2,), "calls: its daemon does not answer")
    ]
