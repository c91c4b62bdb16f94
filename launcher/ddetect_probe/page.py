"""The shared-memory page: the last word of a rank, readable while its GIL is held and after it was killed.

Enters (rank side): numbers and short texts, through `PageWriter`. Leaves (agent side): `Page`, read with no help
from the rank. One file per process, fallocated before it is mapped, never truncated while mapped.
Never here: torch, sockets, threads, anything but the standard library. The agent imports this module and no other
of the probe.

Layout, all little-endian signed 64-bit slots: 64 slots of header (the process), 16 rows of lanes (who is judged: torch
has one, 0), 32 open point-to-point operations, 32 newest rooted calls, texts, 24 sequences of collectives, 8 calls of
Python from below (TensorFlow's), two more texts. A lane's phase and time are one slot (the phase in the low byte),
so they cannot tear; a counter and its time are neighbours; rows of operations and texts have a sequence counter that is
odd while they are being written.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from typing import Any, List, NamedTuple, Optional, Tuple

MAGIC = int.from_bytes(b"ddetect\0", "little")
LAYOUT = 3
SIZE = 24576
SUFFIX = ".page"

# header slots
S_MAGIC, S_LAYOUT, S_PID, S_START_TICKS, S_ROLE, S_RANK, S_LOCAL_RANK, S_WORLD = range(8)
S_RESTART, S_PARENT, S_CREATED_NS, S_TICKS, S_TICK_NS = range(8, 13)
S_EXIT_CODE = 13  # plus one: what it said it would exit with; 0 where it said nothing, as most do
# 14 to 20 are free: until layout 2 they were the counters that are each lane's own now
S_EXIT, S_EXIT_NS = 21, 22  # Exit code below
S_WORKER_INDEX, S_FETCH, S_FETCH_NS, S_FETCHES = range(
    23, 27
)  # FETCH: first dataset index of the batch, -1 if none
S_PG_STATE, S_PG_NS = 27, 28
S_FAULT_SIGNAL = 29  # the signal that makes faulthandler write <pid>.fault, 0 if none
S_HOOKS_OFF = 30  # hooks that switched themselves off after an exception; the text "hooks_off" names them
S_GROUPS_DROPPED = 31  # 1: more groups than the text holds
S_LOSS, S_GRAD_NORM, S_NUMERIC_NS = 32, 33, 34  # doubles, bit for bit
HEADER_SLOTS = 64

LANES_AT, LANES, LANE_WIDTH = 64, 16, 16
# Offsets in a lane's row. The thread is the one whose phase this is: Python's ident (py-spy and faulthandler print it)
# and the kernel's number (/proc has it). Reserved, 0 until somebody writes them: the device plus one, and the newest
# collective's sequence number with its time. 14 and 15 are free.
L_PHASE, L_DEVICE, L_IDENT, L_TID = range(4)
L_STEPS, L_STEP_NS, L_BATCHES, L_BATCH_NS = range(4, 8)
L_CALLS, L_CALL_NS, L_P2P, L_P2P_NS = range(8, 12)
L_SEQ, L_SEQ_NS = 12, 13
P2P_AT, P2P_ROWS, P2P_WIDTH = 320, 32, 8  # seq, kind (0 free), peer, tag, group, since_ns, waiting, spare
# seq, op (low byte) and elements + 1, group, collective seq, root, reduce op
CALLS_AT, CALLS_ROWS, CALLS_WIDTH = 576, 32, 6
# A sequence of collectives: row counter, lane + 1, group, enqueued, oldest open, completed, since_ns, spare
SEQS_AT, SEQS_ROWS, SEQS_WIDTH = 2320, 24, 8
# Python that a C++ runtime called and has not got back: row counter, what (0 free), lane + 1, ident, tid, since_ns
INNER_AT, INNER_ROWS, INNER_WIDTH = 2512, 8, 6
_TEXTS = {  # where, in bytes, and how long
    "exception": (6144, 2048), "groups": (8192, 8192), "mailbox": (16384, 512), "script": (16896, 1024),
    "framework": (17920, 128), "hooks_off": (18048, 512),
    "strategy": (20480, 512), "tracing": (20992, 256),
}  # fmt: skip

# roles, as in ddetect.model.Role
ROLE_OTHER, ROLE_RANK, ROLE_LOADER_WORKER, ROLE_CHILD = range(4)
# phases, as in ddetect.model.Phase
(OTHER, STARTING, JOINING, DATA, OPTIMIZER, COLLECTIVE, P2P, PAUSED, LEAVING, EXITING) = range(10)
# inside a compiled step, where Python cannot tell computing from waiting; building a graph of one
STEP, TRACING = 10, 11
# process group state
PG_NONE, PG_JOINING, PG_READY, PG_LEAVING, PG_LEFT = range(5)
# exit
ALIVE, EXITED, RAISED = range(3)
# point-to-point kinds, as in ddetect.model.P2PKind
SEND, RECV, RECV_ANY, MONITORED_BARRIER = range(1, 5)
# what a call from below is for: input data, or the step itself
INNER_DATA, INNER_STEP = 1, 2
# operations whose root or reduce op the Flight Recorder does not tell
CALL_OPS = ("", "broadcast", "reduce", "gather", "scatter", "all_reduce", "reduce_scatter")
REDUCE_OPS = ("", "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")

_ROW_TRIES = 5


class BadPage(ValueError):
    """The file is not a page, or one of a layout this reader does not know."""


def start_ticks(pid: int) -> int:
    """When a process began, in clock ticks since boot: with its pid, its identity. 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def page_name(pid: int, ticks: int) -> str:
    """The file name of a process's page."""
    return f"{pid}.{ticks}{SUFFIX}"


def lane_at(lane: int) -> int:
    """The slot where a lane's row begins."""
    return LANES_AT + lane * LANE_WIDTH


# A counter and its time, or a whole row with its sequence counter, in one go: cheaper than slot by slot. Native, like
# the slots of a memoryview: eight bytes are then one store, where "<q" would write them one by one.
pack_pair = struct.Struct("2q").pack_into
pack_call = struct.Struct("6q").pack_into
pack_open_op = struct.Struct("8q").pack_into
pack_sequence = struct.Struct("8q").pack_into
pack_inner = struct.Struct("6q").pack_into


class PageWriter:
    """The rank's side. `slots[...] = number` is the whole cost of an event (about 40 ns)."""

    def __init__(self, folder: str, role: int) -> None:
        """Create, allocate and map the page. Raises OSError; a full disk says so here and never as SIGBUS."""
        pid = os.getpid()
        ticks = start_ticks(pid)
        self.path = os.path.join(folder, page_name(pid, ticks))
        unfinished = self.path + ".new"
        handle = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o660)
        try:
            os.posix_fallocate(handle, 0, SIZE)
            self._map = mmap.mmap(handle, SIZE)
        except BaseException:
            os.unlink(unfinished)
            raise
        finally:
            os.close(handle)
        self.slots = memoryview(self._map).cast("q")
        slots = self.slots
        for slot, value in (
            (S_LAYOUT, LAYOUT), (S_PID, pid), (S_START_TICKS, ticks), (S_ROLE, role), (S_RANK, -1),
            (S_LOCAL_RANK, -1), (S_WORLD, -1), (S_PARENT, os.getppid()), (S_CREATED_NS, time.monotonic_ns()),
            (S_WORKER_INDEX, -1), (S_FETCH, -1), (S_MAGIC, MAGIC),
        ):  # fmt: skip
            slots[slot] = value
        os.rename(unfinished, self.path)  # a reader never sees a half-made page

    @property
    def raw(self) -> mmap.mmap:
        """The mapping itself, for `pack_pair` and the like."""
        return self._map

    def lane(self, lane: int, phase: int) -> None:
        """Say what a lane does from now on: one store, which cannot tear."""
        self.slots[lane_at(lane) + L_PHASE] = (time.monotonic_ns() & ~0xFF) | phase

    def text(self, name: str, value: str) -> bool:
        """Write a short text; False when it had to be cut."""
        at, room = _TEXTS[name]
        raw = value.encode("utf-8", "replace")
        fits = raw[: room - 16]
        slot = at // 8
        sequence = self.slots[slot]
        self.slots[slot] = sequence | 1
        self.slots[slot + 1] = len(fits)
        self._map[at + 16 : at + 16 + len(fits)] = fits
        self.slots[slot] = (sequence | 1) + 1
        return len(fits) == len(raw)

    def read_text(self, name: str) -> str:
        """Read a text back (the mailbox is written by the agent)."""
        return _read_text(self._map, name)

    def row(self, at: int, values: Tuple[int, ...]) -> None:
        """Write the fields of a row behind its sequence counter at slot `at`."""
        slots = self.slots
        sequence = slots[at] | 1
        slots[at] = sequence
        for offset, value in enumerate(values, 1):
            slots[at + offset] = value
        slots[at] = sequence + 1


class LaneRow(NamedTuple):
    """Who is judged: what it does, since when, in which thread (0: unknown), and how far it has come."""

    lane: int
    phase: int
    since_ns: int
    device: int  # -1: unknown
    ident: int
    tid: int
    steps: int
    step_ns: int
    batches: int
    batch_ns: int
    calls: int
    call_ns: int
    p2p: int
    p2p_ns: int


class OpenOp(NamedTuple):
    """A point-to-point operation begun and not ended."""

    kind: int
    peer: int
    tag: int
    group: int
    since_ns: int
    waiting: bool


class CallRow(NamedTuple):
    """A collective whose root and reduce op only Python knows. `seq` is the group's sequence number."""

    op: str
    group: int
    seq: int
    root: int
    reduce_op: str
    elements: int = -1  # of its tensor; -1: unknown


class SeqRow(NamedTuple):
    """How far a lane has come in a group's sequence. Only order and equality among its ranks mean anything."""

    lane: int
    group: int
    enqueued: int  # the highest number taken
    oldest_open: int  # the first number of the call that is still inside; 0: none is
    completed: int  # the highest one below which nothing is open
    since_ns: int  # when `enqueued` changed


class InnerCall(NamedTuple):
    """Python that the runtime below has called and not got back, and in which thread."""

    what: int  # INNER_DATA or INNER_STEP
    lane: int  # -1: unknown
    ident: int
    tid: int
    since_ns: int


class GroupText(NamedTuple):
    """A process group as the probe wrote it; `number` is how rows refer to it."""

    number: int
    name: str
    desc: str
    backend: str
    members: str  # as a rank set: "0-3"


class Page:
    """The reader's side: maps the file once; every property is a fresh look."""

    def __init__(self, path: str) -> None:
        """Map a page. Raises OSError, or BadPage for a file that is none."""
        self.path = path
        with open(path, "rb") as handle:
            if os.fstat(handle.fileno()).st_size < SIZE:
                raise BadPage(f"{path} is not a ddetect page: too short")
            self._map = mmap.mmap(handle.fileno(), SIZE, prot=mmap.PROT_READ)
        header = self.header()
        if header[S_MAGIC] != MAGIC:
            raise BadPage(f"{path} is not a ddetect page")
        if header[S_LAYOUT] != LAYOUT:
            raise BadPage(f"{path} has layout {header[S_LAYOUT]}; this ddetect reads {LAYOUT}")

    def close(self) -> None:
        """Unmap."""
        self._map.close()

    def header(self) -> Tuple[int, ...]:
        """All header slots at once; index them with the S_ constants."""
        return struct.unpack_from(f"<{HEADER_SLOTS}q", self._map, 0)

    def lanes(self) -> List[LaneRow]:
        """Every lane that was ever used, with its number."""
        found = []
        for lane in range(LANES):
            row = struct.unpack_from(f"<{L_P2P_NS + 1}q", self._map, lane_at(lane) * 8)
            word = row[L_PHASE]
            if word:
                found.append(LaneRow(lane, word & 0xFF, word & ~0xFF, row[L_DEVICE] - 1, *row[L_IDENT:]))
        return found

    def open_ops(self) -> List[OpenOp]:
        """Point-to-point operations that have begun and not ended."""
        rows = (self._row(P2P_AT + n * P2P_WIDTH, P2P_WIDTH) for n in range(P2P_ROWS))
        return [OpenOp(r[0], r[1], r[2], r[3], r[4], bool(r[5])) for r in rows if r is not None and r[0]]

    def calls(self) -> List[CallRow]:
        """The newest rooted calls, in no order."""
        rows = (self._call(n) for n in range(CALLS_ROWS))
        return [row for row in rows if row is not None]

    def newest_call(self) -> Optional[CallRow]:
        """The newest call of all; None if that was one without a row, or if there was none."""
        count = struct.unpack_from("<q", self._map, (LANES_AT + L_CALLS) * 8)[0]
        number = (count - 1) % CALLS_ROWS
        written = struct.unpack_from("<q", self._map, (CALLS_AT + number * CALLS_WIDTH) * 8)[0]
        return self._call(number) if count > 0 and written == count * 2 else None

    def _call(self, number: int) -> Optional[CallRow]:
        r = self._row(CALLS_AT + number * CALLS_WIDTH, CALLS_WIDTH)
        if r is None or not (0 < r[0] & 0xFF < len(CALL_OPS) and 0 <= r[4] < len(REDUCE_OPS)):
            return None
        return CallRow(CALL_OPS[r[0] & 0xFF], r[1], r[2], r[3], REDUCE_OPS[r[4]], (r[0] >> 8) - 1)

    def sequences(self) -> List[SeqRow]:
        """Sequences of collectives, one row for each lane and group that has begun one."""
        rows = (self._row(SEQS_AT + n * SEQS_WIDTH, SEQS_WIDTH) for n in range(SEQS_ROWS))
        return [SeqRow(r[0] - 1, *r[1:6]) for r in rows if r is not None and r[0]]

    def inner_calls(self) -> List[InnerCall]:
        """Calls of Python from below that have not returned, as far as there were rows for them."""
        rows = (self._row(INNER_AT + n * INNER_WIDTH, INNER_WIDTH) for n in range(INNER_ROWS))
        return [InnerCall(r[0], r[1] - 1, *r[2:]) for r in rows if r is not None and r[0]]

    def groups(self) -> List[GroupText]:
        """Process groups this rank is in."""
        return [GroupText(*item) for item in self._json("groups") or []]

    def exception(self) -> Optional[dict]:  # type: ignore[type-arg]
        """The last uncaught exception: keys type, message, function, file, line; None if there was none."""
        value = self._json("exception")
        return value if isinstance(value, dict) else None

    def script(self) -> str:
        """The program the rank runs."""
        return _read_text(self._map, "script")

    def frameworks(self) -> List[str]:
        """The frameworks whose hooks are in this process, the one that it trains with first."""
        return _read_text(self._map, "framework").split()

    def count_inner(self) -> int:
        """How many calls of Python from below were begun: a pipeline that fills its buffers moves this number."""
        slots = struct.unpack_from(f"<{INNER_ROWS * INNER_WIDTH}q", self._map, INNER_AT * 8)
        return int(sum(slots[::INNER_WIDTH])) // 2

    def strategy(self) -> Optional[dict]:  # type: ignore[type-arg]
        """How the job is distributed: keys kind, replicas, workers, task, index; None if nobody has said."""
        value = self._json("strategy")
        return value if isinstance(value, dict) else None

    def tracing(self) -> str:
        """The function whose graph is being built right now, "" if none is."""
        return _read_text(self._map, "tracing")

    def hooks_off(self) -> List[str]:
        """The hooks that switched themselves off, as far as their names fit."""
        return _read_text(self._map, "hooks_off").split()

    def _json(self, name: str) -> Any:
        try:
            return json.loads(_read_text(self._map, name) or "null")
        except ValueError:
            return None

    def _row(self, at: int, width: int) -> Optional[Tuple[int, ...]]:
        for _ in range(_ROW_TRIES):
            row = struct.unpack_from(f"<{width}q", self._map, at * 8)
            # The whole row, not its counter alone: the probe writes a row in one go, counter first.
            if row == struct.unpack_from(f"<{width}q", self._map, at * 8) and not row[0] & 1:
                return row[1:] if row[0] else None
        return None


def _read_text(view: mmap.mmap, name: str) -> str:
    at, room = _TEXTS[name]
    for _ in range(_ROW_TRIES):
        before, length = struct.unpack_from("<2q", view, at)
        raw = view[at + 16 : at + 16 + max(0, min(length, room - 16))]
        after = struct.unpack_from("<q", view, at)[0]
        if before == after and not before & 1:
            return raw.decode("utf-8", "replace")
    return ""


def write_mail(path: str, text: str) -> None:
    """Leave a message for the rank's tick thread: the one way back into the rank."""
    at, room = _TEXTS["mailbox"]
    raw = text.encode("utf-8", "replace")[: room - 16]
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        sequence = struct.unpack("<q", os.pread(handle, 8, at))[0] | 1
        os.pwrite(handle, struct.pack("<2q", sequence, len(raw)), at)
        os.pwrite(handle, raw, at + 16)
        os.pwrite(handle, struct.pack("<q", sequence + 1), at)
    finally:
        os.close(handle)
