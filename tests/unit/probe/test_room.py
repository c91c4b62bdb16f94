from __future__ import annotations

import os
from pathlib import Path

import pytest
from ddetect_probe import page, room, state
from ddetect_probe.hooks.torch import server


def host(tmp_path: Path, membership: str, limits: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """A /proc and a /sys/fs/cgroup with these pids limits: folder -> (max, current)."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(membership)
    for folder, (most, now) in limits.items():
        place = tmp_path / "cgroup" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "pids.max").write_text(most + "\n")
        (place / "pids.current").write_text(now + "\n")
    return str(tmp_path / "proc"), str(tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("membership", "limits", "free"),
    [
        ("0::/a/b\n", {"a": ("100", "90"), "a/b": ("max", "5")}, 10),
        ("0::/outside/of/us\n", {".": ("64", "60")}, 4),
        ("4:memory:/x\n8:pids:/y\n0::/\n", {"pids/y": ("50", "20"), "memory/x": ("1", "1")}, 30),
        ("0::/a\n", {"a": ("max", "7")}, float("inf")),
        ("", {}, float("inf")),
    ],
)
def test_smallest_limit_on_the_way_up_counts(
    tmp_path: Path, membership: str, limits: dict[str, tuple[str, str]], free: float
) -> None:
    """Version 1 and 2, a limit of a folder above, a path from outside the container, no limit at all."""
    proc, cgroups = host(tmp_path, membership, limits)

    assert room.free_threads(proc, cgroups) == free


def test_without_room_no_server_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Torch would end the process; the page counts the missing server instead."""
    pytest.importorskip("torch", reason="NOT TESTED, the server: the extra `torch` is not installed")
    (tmp_path / "pages").mkdir()
    (tmp_path / "sock").mkdir()
    state.open_page(str(tmp_path), page.ROLE_RANK)
    monkeypatch.setattr(state, "_broken", [])
    monkeypatch.setattr(room, "free_threads", lambda: server.threads_wanted() - 1)

    server.open_server()

    assert os.listdir(tmp_path / "sock") == []
    assert state.broken_hooks() == ["server"]


def test_room_is_asked_for_every_rank_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """They all start at once."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    eight = server.threads_wanted()
    monkeypatch.delenv("LOCAL_WORLD_SIZE")

    assert eight == 8 * server.threads_wanted() >= 128
