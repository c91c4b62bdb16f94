"""What the state machine was told, kept so that an incident can be played again: bytes in memory, handed to its folder.

Enters: every event with its time, and the state while nothing is suspected. Leaves: for each incident, pieces of a log
that begins with a checkpoint; each piece is a gzip member, so that a file of them is one gzip file. Events are
numbered: a log that lacks one is not believed. On wish the whole job is kept, from its first event on, in pieces of the
same kind. Never here: files (incidents.py, server.py), judging (an opinion is formed anew).
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from ddetect.coordinator.checkpoint import dump_state
from ddetect.coordinator.events import Ending, Event, Heard, Judged, Lost, Tick
from ddetect.coordinator.state import JobState
from ddetect.wire.codec import agent_bytes, agent_words

CHECKPOINT_S = 60.0
WHOLE_RANKS = 1024
"""A job of so many ranks has its log whole; of a larger one it ends after so many bytes, and says so."""
MOST_BYTES = 64 << 20
PIECE_BYTES = 1 << 20
_HEAD = struct.Struct(
    "<QcdqHI"
)  # number, kind, now, unix time, length of the node's name, length of the rest
_CHECKPOINT, _HEARD, _LOST, _TICK, _ENDING, _JUDGED, _CUT = b"C", b"H", b"L", b"T", b"E", b"J", b"X"


class Entry(NamedTuple):
    """One line of a log. `event` is None for a checkpoint (`state` has it) and where the log was cut."""

    number: int
    now: float
    unix_ns: int
    event: Event | None
    ticket: int = 0  # of an opinion that came back here
    state: bytes = b""


class EventLog:
    """The events since the last checkpoint, as bytes; `whole`: those of all the time, too, for who asks for them."""

    def __init__(self, *, whole: bool = False) -> None:
        self._whole: list[bytes] | None = [] if whole else None  # not handed out yet
        self._number = 0
        self._frames: list[bytes] = []
        self._at: float | None = None  # when the checkpoint was taken,
        self._newest = 0.0  # and the newest event
        self._of = 0  # the incident that pieces are handed out for,
        self._given = 0  # how many frames of it have been,
        self._bytes = 0  # and how long they are
        self._waiting = 0  # bytes not yet handed out
        self._begins = True  # the frames in memory begin with the checkpoint
        self.is_cut = False

    def note(self, event: Event, job: JobState, *, now: float, unix_ns: int, raw: bytes = b"") -> None:
        """Write an event down, before the state machine takes it. `raw`: the message as it came."""
        if job.watch is None and (self._at is None or now - self._at >= CHECKPOINT_S):
            self._frames, self._at, self._given, self._bytes, self._of = [], now, 0, 0, 0
            self._waiting, self.is_cut, self._begins = 0, False, True
            self._add(_CHECKPOINT, now, unix_ns, "", dump_state(job))
        self._newest = now
        if self.is_cut and self._whole is None:
            return
        self._add(*_packed(event, raw, now, unix_ns))

    def _add(self, kind: bytes, now: float, unix_ns: int, node: str, rest: bytes) -> None:
        self._number += 1
        name = node.encode()
        frame = _HEAD.pack(self._number, kind, now, unix_ns, len(name), len(rest)) + name + rest
        if self._whole is not None:
            self._whole.append(frame)
        if not self.is_cut:
            self._frames.append(frame)
            self._waiting += len(frame)

    def whole_piece(self) -> bytes:
        """What the log of the whole job lacks so far, compressed; checkpoints among the events are passed over."""
        if not self._whole:
            return b""
        data, self._whole = b"".join(self._whole), []
        return gzip.compress(data, 6, mtime=0)

    def piece(self, incident: int, ranks: int) -> bytes:
        """What the log of this incident lacks so far, compressed; the first piece begins with the checkpoint."""
        if incident != self._of:
            self._of, self._given, self._bytes, self.is_cut = incident, 0, 0, not self._begins
        if self.is_cut:
            return b""
        frames = self._frames[self._given :]
        self._given, self._waiting = len(self._frames), 0
        data = b"".join(frames)
        if self._at is not None and self._newest - self._at > 2 * CHECKPOINT_S:
            # What lasts is on disk and not in memory; when it is over there will be a new checkpoint.
            self._frames, self._given, self._begins = [], 0, False
        if ranks > WHOLE_RANKS and self._bytes + len(data) > MOST_BYTES:
            self.is_cut = True
            data = _HEAD.pack(0, _CUT, 0.0, 0, 0, 0)
        self._bytes += len(data)
        return gzip.compress(data, 6, mtime=0) if data else b""

    def forget(self) -> None:
        """The open incident is withdrawn: its number may be another's soon."""
        self._of = 0

    @property
    def is_long(self) -> bool:
        """Whether so much has come that it should go to the folder now."""
        return self._of > 0 and self._waiting > PIECE_BYTES


def _packed(event: Event, raw: bytes, now: float, unix_ns: int) -> tuple[bytes, float, int, str, bytes]:
    match event:
        case Heard(node, message):
            return _HEARD, now, unix_ns, node, raw or agent_bytes(message)
        case Lost(node):
            return _LOST, now, unix_ns, node, b""
        case Tick():
            return _TICK, now, unix_ns, "", b""
        case Ending():
            return _ENDING, now, unix_ns, "", json.dumps(asdict(event)).encode()
        case Judged(opinion):
            return _JUDGED, now, unix_ns, "", str(opinion.ticket).encode()


def read_log(data: bytes) -> Iterator[Entry]:
    """The lines of a log, in order. Raises ValueError where one is missing or makes no sense.

    A coordinator that was started again begins anew, with a checkpoint that is the first.
    """
    data = gzip.decompress(data)
    at, before = 0, None
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise ValueError("the event log ends in the middle of an event")
        number, kind, now, unix_ns, name_size, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        node, rest = data[at : at + name_size].decode(), data[at + name_size : at + name_size + size]
        at += name_size + size
        if kind == _CUT:
            yield Entry(number, now, unix_ns, None)
            return
        anew = kind == _CHECKPOINT and number == 1
        if before is not None and number != before + 1 and not anew:
            raise ValueError(f"the event log lacks event {before + 1}")
        before = number
        yield _entry(number, kind, now, unix_ns, node, rest)


def _entry(number: int, kind: bytes, now: float, unix_ns: int, node: str, rest: bytes) -> Entry:
    if kind == _CHECKPOINT:
        return Entry(number, now, unix_ns, None, state=rest)
    if kind == _HEARD:
        message = agent_words(rest)
        return Entry(number, now, unix_ns, Heard(node, message))
    if kind == _LOST:
        return Entry(number, now, unix_ns, Lost(node))
    if kind == _TICK:
        return Entry(number, now, unix_ns, Tick())
    if kind == _ENDING:
        return Entry(number, now, unix_ns, Ending(**json.loads(rest)))
    if kind == _JUDGED:
        return Entry(number, now, unix_ns, None, ticket=int(rest))
    raise ValueError(f"the event log has an event of a kind that nobody knows ({kind!r})")
