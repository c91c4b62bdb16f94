"""What a launcher says to the agent: understood, said again, and never waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ddetect_launcher.words import Line, Word, format_word, parse_word

WORDS = [
    Word(launcher=7, at_ns=5, signal=15),
    Word(launcher=7, at_ns=5, exit_code=0),
    Word(launcher=7, at_ns=5, pid=12, start_ticks=99, status=0),
]


@pytest.mark.parametrize("word", WORDS)
def test_word_is_understood(word: Word) -> None:
    """Every field comes back, and exit code 0 is a word."""
    assert parse_word(format_word(word)) == word


@pytest.mark.parametrize(
    "raw",
    [b"", b"x", b"[]", b'"x"', b"{}", b'{"signal": 0}', b'{"signal": "15"}', b'{"pid": 7}', b"[" * 5000, b"\xff\xfe"],
)  # fmt: skip
def test_what_makes_no_sense_is_no_word(raw: bytes) -> None:
    """Whoever writes to the socket, nothing comes of it but words."""
    assert parse_word(raw) is None


def test_sidecar_needs_to_say_no_more_than_what_happened() -> None:
    """Who it is and when need not be told, and what a later version adds is passed over."""
    assert parse_word(b'{"signal": 15, "reason": "preempted"}') == Word(signal=15)


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as subject:
        subject.bind(str(tmp_path / "agent.sock"))
        subject.setblocking(False)
        yield subject


def read_all(ears: socket.socket) -> list[Word]:
    words = []
    while True:
        try:
            word = parse_word(ears.recv(4096))
        except BlockingIOError:
            return words
        assert word is not None
        words.append(word)


def test_nobody_there_costs_nothing(tmp_path: Path) -> None:
    """No socket, or one that nobody has open."""
    line = Line(str(tmp_path))
    line.passes_on(15)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(tmp_path / "agent.sock"))
    line.passes_on(2)
    line.repeat(now=True)
    line.close()


def test_full_socket_is_not_waited_for(tmp_path: Path, ears: socket.socket) -> None:
    """An agent that is frozen reads nothing; we go on, and it finds the newest words when it reads again."""
    line = Line(str(tmp_path))
    for _ in range(2000):
        line.passes_on(15)
    assert read_all(ears)
    line.job_ended(3)
    said = read_all(ears)

    assert [said[-2].signal, said[-1].exit_code] == [15, 3]
    line.close()


def test_words_are_said_again_in_their_order_and_more_rarely(tmp_path: Path, ears: socket.socket) -> None:
    """Who listens later hears all of it; what is said again carries the same time, so it counts once."""
    now = [100.0]
    line = Line(str(tmp_path), clock=lambda: now[0])
    line.repeat()
    line.passes_on(15)
    line.child_ended(12, 99, 15)
    first = read_all(ears)
    counts = []
    for _ in range(80):
        now[0] += 0.5
        line.repeat()
        counts.append(len(read_all(ears)))

    assert [(word.signal, word.pid, word.status) for word in first] == [
        (15, 0, None),
        (15, 0, None),
        (0, 12, 15),
    ]
    assert len({word.at_ns for word in first}) == 2
    assert {word.launcher for word in first} == {os.getpid()}
    assert counts[0] == 2
    assert 2 * 4 <= sum(counts) <= 2 * 10
    assert sum(counts[-20:]) > 0
    line.close()
