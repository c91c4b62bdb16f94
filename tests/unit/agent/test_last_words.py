"""What a rank leaves behind: its last call, the stack of a fatal signal, the end of its stderr."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ddetect_probe import page as layout

from ddetect.agent.last_words import FatalStack, add_words, last_call_of, parse_fatal
from ddetect.agent.members import JobProcess
from ddetect.agent.stderr import (
    MOST_BYTES,
    MOST_LINES,
    LastLines,
    StderrFile,
    StderrFiles,
    find_stderr,
    name_error,
    read_end,
    tidy,
)
from ddetect.model import UNKNOWN, UNSEEN_ERROR, Departure, Frame, Gone, LastCall, Role

ABORTED = int(signal.SIGABRT)
TERMINATE = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
    "  what():  [enforce fail at /pair.cc:456] op.preamble.length <= op.nbytes. 2048 vs 128. ",
)
FATAL = """Fatal Python error: Aborted

Thread 0x00007f3700000000 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

{thread} 0x00007f38deadbeef (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3000 in all_reduce
  File "/job/train.py", line 17 in average
  File "/job/train.py", line 25 in <module>
"""


def gone(how: Departure = Departure.VANISHED, **more: object) -> Gone:
    return Gone(1, Role.RANK, -1, 77, how, 1.0, **more)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the last call


@pytest.fixture
def writer(tmp_path: Path) -> layout.PageWriter:
    writer = layout.PageWriter(str(tmp_path), layout.ROLE_RANK)
    writer.text("groups", '[[0, "0", "default_pg", "gloo", "0-3"]]')
    writer.lane(0, layout.OTHER)
    return writer


def call(writer: layout.PageWriter, *, row: bool = True, number: int = 1) -> None:
    """As the hooks write it: the row, then the counter."""
    if row:
        at = layout.CALLS_AT + (number - 1) % layout.CALLS_ROWS * layout.CALLS_WIDTH
        layout.pack_call(writer.raw, at * 8, number * 2, 5 | 65 << 8, 0, 20 + number, -1, 1)
    layout.pack_pair(writer.raw, (layout.LANES_AT + layout.L_CALLS) * 8, number, 99)


def test_call_that_a_rank_was_in_is_told_with_number_and_size(writer: layout.PageWriter) -> None:
    """The page outlives the process, its recorder does not."""
    call(writer)
    writer.lane(0, layout.COLLECTIVE)
    told = LastCall(True, "all_reduce", "gloo", "0", "default_pg", 21, -1, "SUM", 64, 4)

    assert last_call_of(layout.Page(writer.path)) == told

    writer.lane(0, layout.EXITING)
    left = last_call_of(layout.Page(writer.path))
    assert left is not None
    assert (left.inside, left.seq) == (False, 21)


def test_call_without_a_row_is_not_taken_for_the_one_before(writer: layout.PageWriter) -> None:
    """A barrier writes none: that it was in a call is all that is known."""
    call(writer)
    call(writer, row=False, number=2)
    assert last_call_of(layout.Page(writer.path)) is None

    writer.lane(0, layout.COLLECTIVE)

    assert last_call_of(layout.Page(writer.path)) == LastCall(True)


def test_receive_is_told_as_one(writer: layout.PageWriter) -> None:
    """gloo aborts who receives too much in a recv as well."""
    layout.pack_pair(writer.raw, (layout.LANES_AT + layout.L_P2P) * 8, 1, 99)
    writer.row(layout.P2P_AT, (layout.RECV, 2, 9, 0, 50, 1, 0))
    writer.lane(0, layout.P2P)

    assert last_call_of(layout.Page(writer.path)) == LastCall(True, "recv", "gloo", "0", "default_pg")


def test_rank_that_called_nothing_has_no_last_call(writer: layout.PageWriter) -> None:
    """It died before it met anybody."""
    assert last_call_of(layout.Page(writer.path)) is None


# ---------------------------------------------------------------- a fatal signal


def test_stack_of_a_fatal_signal_is_that_of_the_thread_that_trains() -> None:
    """The thread that the signal met is none of Python's: then whoever owns the lane tells, else the main one."""
    found = parse_fatal(FATAL.format(thread="Thread"), 0x7F38DEADBEEF)

    assert found is not None
    assert (found.signal, found.below, found.frames[1]) == (
        ABORTED,
        True,
        Frame("average", "/job/train.py", 17),
    )
    assert parse_fatal(FATAL.format(thread="Thread")) == found


def test_thread_that_the_signal_met_tells_first() -> None:
    """It has Python: its own line is at fault."""
    found = parse_fatal(FATAL.format(thread="Current thread"), 0x7F3700000000)

    assert found is not None
    assert (found.below, found.frames[1].function) == (False, "average")


@pytest.mark.parametrize(
    "text", ["", "Thread 0x1 (most recent call first):\n", "Fatal Python error: deadlock\n"]
)
def test_stacks_that_were_asked_for_are_no_fatal_error(text: str) -> None:
    """The same file has those."""
    assert parse_fatal(text) is None


def test_fatal_stack_gives_the_line_and_the_signal_that_nobody_saw() -> None:
    """A wait status may be lost, what the process wrote down is not; of another signal it tells nothing."""
    stack = FatalStack(ABORTED, (Frame("average", "/job/train.py", 17),), True)

    seen = add_words(gone(), stack, LastLines())
    assert (seen.signal, seen.where, seen.below) == (ABORTED, stack.frames[0], True)
    assert add_words(gone(signal=9), stack, LastLines()) == gone(signal=9)
    assert add_words(gone(code=3), stack, LastLines()) == gone(code=3)


# ---------------------------------------------------------------- stderr


@contextmanager
def writes_to(stderr: Path | int) -> Iterator[subprocess.Popen[bytes]]:
    handle = open(stderr, "ab") if isinstance(stderr, Path) else stderr  # noqa: SIM115
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, stderr=handle
    )
    try:
        yield child
    finally:
        child.communicate(timeout=60)
        if isinstance(stderr, Path):
            handle.close()  # type: ignore[union-attr]


def member(pid: int) -> JobProcess:
    return JobProcess(pid, 1, Role.RANK, 0)


def test_last_lines_of_a_file_are_read_after_the_end(tmp_path: Path) -> None:
    """Noted while it lives; the process need not be there any more."""
    files, path = StderrFiles(), tmp_path / "err"
    with writes_to(path) as child:
        files.note([member(child.pid)])
    path.write_text("begin\nlast words\n")

    assert files.last_lines((child.pid, 1)) == LastLines(("begin", "last words"), own=True)


@pytest.mark.parametrize("where", [subprocess.PIPE, subprocess.DEVNULL])
def test_pipe_or_device_is_no_file(where: int) -> None:
    """Nothing is opened that somebody else reads."""
    with writes_to(where) as child:
        assert find_stderr(child.pid) is None


def test_file_of_several_ranks_tells_only_what_cpp_says(tmp_path: Path) -> None:
    """Nobody knows whose the other lines are."""
    files, path = StderrFiles(), tmp_path / "err"
    with writes_to(path) as first, writes_to(path) as second:
        files.note([member(first.pid), member(second.pid)])
    path.write_text("\n".join(["[rank0]: ValueError: bad", *TERMINATE, "RuntimeError: closed"]))

    told = files.last_lines((first.pid, 1))

    assert (told.own, len(told.lines)) == (False, 2)
    assert add_words(gone(signal=9), None, told).stderr == ()
    assert add_words(gone(signal=ABORTED), None, told).exception.startswith(
        "gloo::EnforceNotMet: [enforce fail"
    )


def test_file_that_took_the_name_of_the_noted_one_is_not_read(tmp_path: Path) -> None:
    """Logs are rotated."""
    path = tmp_path / "err"
    path.write_text("of another")
    inode = path.stat().st_ino

    assert read_end(StderrFile(str(path), inode + 1)) == b""
    assert read_end(StderrFile(str(path), inode)) == b"of another"


def test_fifo_in_place_of_the_file_does_not_hold_the_agent(tmp_path: Path) -> None:
    """Whatever the name means by then."""
    os.mkfifo(tmp_path / "err")

    assert read_end(StderrFile(str(tmp_path / "err"))) == b""


def test_lines_are_few_short_and_harmless(tmp_path: Path) -> None:
    """They are the job's: colours and control characters do not reach a terminal."""
    path = tmp_path / "err"
    path.write_text("x" * 9000 + "\n" + "".join(f"\x1b[31mline {n}\x1b[0m \x07\n" for n in range(40)))

    text = read_end(StderrFile(str(path)))
    lines = tidy(text, whole=False)

    assert (len(text), len(lines), lines[-1]) == (MOST_BYTES, MOST_LINES, "line 39 \N{REPLACEMENT CHARACTER}")
    assert max(map(len, tidy(b"y" * 2000))) <= 300


@pytest.mark.parametrize(
    ("lines", "python", "error"),
    [
        (TERMINATE, False, f"gloo::EnforceNotMet: {TERMINATE[1].removeprefix('  what():  ')}"),
        (TERMINATE[:1], False, "gloo::EnforceNotMet"),
        (("free(): invalid pointer",), False, "free(): invalid pointer"),
        (("python: x.c:3: main: Assertion `n > 0' failed.",), False, "python: x.c:3: main: Assertion `n > 0' failed."),
        (("Traceback", "[rank3]: torch.OutOfMemoryError: 2 GB"), True, "torch.OutOfMemoryError: 2 GB"),
        (("Traceback", "ValueError: bad shard"), False, ""),
        (("training goes well",), True, ""),
    ],
)  # fmt: skip
def test_error_is_named_by_what_libc_cpp_or_python_print(
    lines: tuple[str, ...], python: bool, error: str
) -> None:
    """Of the last one that there is."""
    assert name_error(lines, python=python) == error


def test_exception_that_no_probe_saw_is_read_from_its_own_file() -> None:
    """An exit code alone says little; a file of several ranks would tell of another."""
    unseen = gone(Departure.RAISED, exception=f"{UNSEEN_ERROR} (exit code 1)", code=1)
    lines = ("Traceback (most recent call last):", "ValueError: bad shard")

    assert add_words(unseen, None, LastLines(lines, own=True)).exception == "ValueError: bad shard"
    assert add_words(unseen, None, LastLines(lines, own=False)) == unseen
    seen = gone(Departure.RAISED, exception="KeyError: 3", code=UNKNOWN)
    assert add_words(seen, None, LastLines(lines, own=True)).exception == "KeyError: 3"
