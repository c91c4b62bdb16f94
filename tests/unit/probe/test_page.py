from __future__ import annotations

import errno
import os
import struct
import subprocess
from pathlib import Path

import pytest
from ddetect_probe import page


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Slots, lanes, rows and texts come out as they went in."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    page.pack_pair(writer.raw, (page.lane_at(0) + page.L_STEPS) * 8, 7, 70)
    writer.lane(0, page.DATA)
    writer.row(page.P2P_AT, (page.SEND, 3, 0, 1, 55, 1, 0))
    writer.row(page.CALLS_AT, (1, 0, 12, 2, 0))
    writer.text("groups", '[[0,"0","default_pg","gloo","0-3"]]')

    seen = page.Page(writer.path)

    (lane,) = seen.lanes()
    assert (lane.lane, lane.phase, lane.steps, lane.step_ns) == (0, page.DATA, 7, 70)
    assert seen.open_ops() == [page.OpenOp(page.SEND, 3, 0, 1, 55, True)]
    assert seen.calls() == [page.CallRow("broadcast", 0, 12, 2, "")]
    assert seen.groups() == [page.GroupText(0, "0", "default_pg", "gloo", "0-3")]


def test_row_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    """An odd sequence counter means torn: the reader says nothing rather than something wrong."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.row(page.P2P_AT, (page.SEND, 3, 0, 1, 55, 1, 0))
    seen = page.Page(writer.path)
    assert seen.open_ops()

    writer.slots[page.P2P_AT] |= 1

    assert seen.open_ops() == []


def test_text_that_is_being_written_is_empty(tmp_path: Path) -> None:
    """A torn text reads as none."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.text("script", "train.py")
    seen = page.Page(writer.path)
    assert seen.script() == "train.py"

    writer.slots[page._TEXTS["script"][0] // 8] |= 1

    assert seen.script() == ""


def test_long_text_is_cut_and_says_so(tmp_path: Path) -> None:
    """No text runs into the next one."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.text("script", "after")

    assert writer.text("mailbox", "x" * 9000) is False
    assert page.Page(writer.path).script() == "after"


def test_file_of_zeros_is_refused(tmp_path: Path) -> None:
    """A file without the magic is not a page."""
    path = tmp_path / "1.2.page"
    path.write_bytes(bytes(page.SIZE))

    with pytest.raises(page.BadPage, match="not a ddetect page"):
        page.Page(str(path))


def test_short_file_is_refused(tmp_path: Path) -> None:
    """A page cut short must not be mapped: reading it would end in SIGBUS."""
    path = tmp_path / "1.2.page"
    path.write_bytes(struct.pack("<q", page.MAGIC))

    with pytest.raises(page.BadPage, match="too short"):
        page.Page(str(path))


def test_newer_layout_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """A page of a newer ddetect is named as such, not misread."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.slots[page.S_LAYOUT] = page.LAYOUT + 1

    with pytest.raises(page.BadPage, match=f"layout {page.LAYOUT + 1}.*reads {page.LAYOUT}"):
        page.Page(writer.path)


def test_mail_reaches_the_writer(tmp_path: Path) -> None:
    """The mailbox is the one way back into the rank."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)

    page.write_mail(writer.path, "wake up")

    assert writer.read_text("mailbox") == "wake up"


def test_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    """No folder, no page: the caller is told at once."""
    with pytest.raises(FileNotFoundError):
        page.PageWriter(str(tmp_path / "gone"), page.ROLE_RANK)


def test_full_disk_is_an_error_and_never_a_signal(tmp_path: Path) -> None:
    """Without room the page is refused when it is made, and leaves nothing behind."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(disk)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED, a full disk: mounting a tmpfs needs root ({mounted.stderr.strip()})")
    try:
        with pytest.raises(OSError, match="No space left") as refused:
            page.PageWriter(str(disk), page.ROLE_RANK)

        assert refused.value.errno == errno.ENOSPC
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_lane_is_listed_with_its_number_and_an_unused_one_is_not(tmp_path: Path) -> None:
    """Readers must not count rows: the third lane is the third even when nobody uses the second."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    for lane in (2, page.LANES - 1):
        writer.lane(lane, page.DATA)
        page.pack_pair(writer.raw, (page.lane_at(lane) + page.L_IDENT) * 8, 100 + lane, 200 + lane)
        for number, slot in enumerate((page.L_STEPS, page.L_BATCHES, page.L_CALLS, page.L_P2P)):
            page.pack_pair(writer.raw, (page.lane_at(lane) + slot) * 8, lane * 10 + number, number + 1)
    writer.row(page.P2P_AT, (page.SEND, 3, 0, 1, 55, 1, 0))

    seen = page.Page(writer.path)

    last = page.LANES - 1
    assert [(row.lane, row.device, row.ident, row.tid) for row in seen.lanes()] == [
        (2, -1, 102, 202),
        (last, -1, 100 + last, 200 + last),
    ]
    assert [row[6:] for row in seen.lanes()] == [
        (lane * 10, 1, lane * 10 + 1, 2, lane * 10 + 2, 3, lane * 10 + 3, 4) for lane in (2, last)
    ]
    assert len(seen.open_ops()) == 1


def test_no_part_of_the_page_lies_over_another() -> None:
    """Header, lanes, rows and texts follow one another, and all fit."""
    parts = [
        (0, page.HEADER_SLOTS * 8),
        (page.LANES_AT * 8, page.LANES * page.LANE_WIDTH * 8),
        (page.P2P_AT * 8, page.P2P_ROWS * page.P2P_WIDTH * 8),
        (page.CALLS_AT * 8, page.CALLS_ROWS * page.CALLS_WIDTH * 8),
        (page.SEQS_AT * 8, page.SEQS_ROWS * page.SEQS_WIDTH * 8),
        (page.INNER_AT * 8, page.INNER_ROWS * page.INNER_WIDTH * 8),
        *page._TEXTS.values(),
    ]
    parts.sort()

    ends = [at + length for at, length in parts]

    assert all(end <= at for end, (at, _) in zip(ends, parts[1:], strict=False))
    assert ends[-1] <= page.SIZE


def test_sequences_are_listed_with_lane_and_group(tmp_path: Path) -> None:
    """A lane that was never written is no row; lane 0 is one."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.row(page.SEQS_AT, (1, 0, 112, 110, 109, 55, 0))
    writer.row(page.SEQS_AT + (page.SEQS_ROWS - 1) * page.SEQS_WIDTH, (3, 1, 200, 0, 200, 66, 0))

    assert page.Page(writer.path).sequences() == [
        page.SeqRow(0, 0, 112, 110, 109, 55),
        page.SeqRow(2, 1, 200, 0, 200, 66),
    ]


def test_inner_call_is_listed_until_its_row_is_free(tmp_path: Path) -> None:
    """A call that has returned is none."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    writer.row(page.INNER_AT, (page.INNER_DATA, 0, 7, 8, 9))
    writer.row(page.INNER_AT + page.INNER_WIDTH, (page.INNER_STEP, 2, 17, 18, 19))
    seen = page.Page(writer.path)
    assert seen.inner_calls() == [
        page.InnerCall(page.INNER_DATA, -1, 7, 8, 9),
        page.InnerCall(page.INNER_STEP, 1, 17, 18, 19),
    ]

    writer.row(page.INNER_AT, (0, 0, 0, 0, 0))

    assert seen.inner_calls() == [page.InnerCall(page.INNER_STEP, 1, 17, 18, 19)]


def test_strategy_and_tracing_are_read_and_absent_ones_are_nothing(tmp_path: Path) -> None:
    """Most jobs have neither."""
    writer = page.PageWriter(str(tmp_path), page.ROLE_RANK)
    seen = page.Page(writer.path)
    assert (seen.strategy(), seen.tracing()) == (None, "")

    writer.text("strategy", '{"kind": "MirroredStrategy", "replicas": 2}')
    writer.text("tracing", "train_step")

    assert seen.strategy() == {"kind": "MirroredStrategy", "replicas": 2}
    assert seen.tracing() == "train_step"
