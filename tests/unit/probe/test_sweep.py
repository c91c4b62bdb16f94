from __future__ import annotations

from pathlib import Path

import pytest
from ddetect_probe import beat, page, state

GONE = 2**22 + 1  # no process has this number


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process as rank 3, with a page of its own."""
    for name in ("pages", "fault"):
        (tmp_path / name).mkdir()
    for name in ("run_dir", "writer", "raw", "slots", "main"):
        monkeypatch.setattr(state, name, getattr(state, name))
    monkeypatch.setattr(beat, "_gone_since", {})
    state.open_page(str(tmp_path), page.ROLE_RANK)
    state.set_rank(3, 8)
    return tmp_path


def leave_page(folder: Path, pid: int, *, role: int, rank: int, parent: int, said: int) -> Path:
    """The page of a process that is gone."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    writer = page.PageWriter(str(made), role)
    for slot, value in ((page.S_RANK, rank), (page.S_PARENT, parent), (page.S_EXIT, said)):
        writer.slots[slot] = value
    path = folder / "pages" / f"{pid}.7.page"
    Path(writer.path).rename(path)
    (folder / "fault" / f"{pid}.fault").touch()
    return path


@pytest.mark.parametrize(("said", "keep_s"), [(page.EXITED, 30), (page.ALIVE, 600)])
def test_page_of_a_grandchild_goes_after_a_while(rank: Path, said: int, keep_s: float) -> None:
    """Its parent is not us, its rank is; the agent has time to read it, longer if it vanished."""
    path = leave_page(rank, GONE, role=page.ROLE_CHILD, rank=3, parent=GONE + 1, said=said)

    beat.sweep(1000.0)
    beat.sweep(1000.0 + keep_s - 1)
    assert path.exists()
    beat.sweep(1000.0 + keep_s)

    assert not path.exists()
    assert list((rank / "fault").iterdir()) == []
    beat.sweep(1000.0 + keep_s + 30)
    assert beat._gone_since == {}


@pytest.mark.parametrize(
    ("role", "number", "pid"),
    [(page.ROLE_CHILD, 4, GONE), (page.ROLE_RANK, 3, GONE), (page.ROLE_OTHER, 3, GONE)],
)
def test_pages_of_other_ranks_children_and_of_ranks_stay(
    rank: Path, role: int, number: int, pid: int
) -> None:
    """Another rank may be in another container, where its processes only look dead from here."""
    path = leave_page(rank, pid, role=role, rank=number, parent=GONE + 1, said=page.EXITED)

    beat.sweep(0.0)
    beat.sweep(10_000.0)

    assert path.exists()


def test_file_of_a_process_that_has_the_number_now_stays(rank: Path) -> None:
    """Numbers come back: the page names the old process, the fault file may be the new one's."""
    path = leave_page(rank, 1, role=page.ROLE_CHILD, rank=3, parent=GONE, said=page.EXITED)

    beat.sweep(0.0)
    beat.sweep(31.0)

    assert not path.exists()
    assert (rank / "fault" / "1.fault").exists()
