"""Digest a dump of torch's Flight Recorder: how far one rank has come in each of its groups.

Enters: the dump as JSON gave it (handlers fr_trace_json, dump_nccl_trace_json) or as a pickle that someone
else has loaded, and what the rank's page knows: its groups, and the roots and reduce ops that the recorder
does not keep. Leaves: a Digest. Never here: sockets, pickle, files; and pg_status and gloo's pg_config,
which do not hold.

Completion: on gloo `state` is "scheduled" for ever and only `retired` tells; elsewhere `state` does.
Generations: the ring outlives destroy_process_group, and after another init_process_group torch gives out the same
names again; `pg_id` counts on. Of one name only the newest is told.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddetect.model import UNKNOWN, CallSpec, Frame, Group, OpState, P2PKind
from ddetect.model.comms import RECORDER_ROWS
from ddetect.model.homes import CodeHomes, Owner, whose

NEWEST = 32
"""Operations kept of each group, beside the open ones."""
_LONGEST = 1000  # characters of sizes in a call; a coalesced operation may have thousands of tensors

_PEERS = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")


@dataclass(frozen=True, slots=True)
class RootedCall:
    """What only Python knew about a collective."""

    op: str
    group: str  # torch's name of the group
    seq: int
    root: int
    reduce_op: str


@dataclass(frozen=True, slots=True)
class Op:
    """One collective of one group; `frame` is who called it, where the dump has frames."""

    seq: int
    call: CallSpec
    state: OpState
    frame: Frame | None = None
    age_s: float = math.inf
    timeout_s: float = math.inf


@dataclass(frozen=True, slots=True)
class PointToPoint:
    """A send or receive that has not completed. `peer` is a global rank, UNKNOWN when members are."""

    kind: P2PKind
    peer: int
    waiting: bool
    age_s: float


@dataclass(frozen=True, slots=True)
class GroupDigest:
    """How far the rank has come in one group: the numbers of `model.Progress` and what is behind them."""

    group: Group
    enqueued: int = 0
    started: int = 0
    completed: int = 0
    oldest_open: int = 0
    first_kept: int = 0
    ops: tuple[Op, ...] = ()
    p2p: tuple[PointToPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Digest:
    """One rank's recorder. `wrapped`: older operations fell out, so silence about a group means nothing."""

    rank: int
    groups: tuple[GroupDigest, ...] = ()
    wrapped: bool = False

    @property
    def completed(self) -> int:
        """Collectives completed in all groups together: it moves while the rank makes progress."""
        return sum(group.completed for group in self.groups)


def digest(
    dump: object,
    *,
    rank: int,
    groups: Sequence[Group] = (),
    calls: Iterable[RootedCall] = (),
    now_unix_ns: int | None = None,
) -> Digest:
    """Digest one rank's dump. Raises ValueError when it is none."""
    if not isinstance(dump, Mapping):
        raise ValueError("this is not a Flight Recorder dump")
    entries = dump.get("entries") or []  # with nothing recorded there is no such key
    if not isinstance(entries, list) or ("version" not in dump and not entries):
        raise ValueError("this is not a Flight Recorder dump")
    rooted = {(call.group, call.seq): call for call in calls}
    try:
        sorted_out = _by_group(entries)
        told = [
            _group_digest(_known(backend, name, desc, groups, dump), rows, rooted, now_unix_ns)
            for (backend, name, desc), rows in sorted_out.items()
        ]
        wrapped = bool(entries) and min(int(entry.get("record_id", 0)) for entry in entries) > 0
    except (AttributeError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"this Flight Recorder dump has an entry we do not understand: {error!r}") from error
    if not wrapped:
        # Nothing fell out of the ring, so a group without an entry has had no operation yet.
        seen = {(one.group.backend, one.group.name) for one in told}
        told += [GroupDigest(group) for group in groups if (group.backend, group.name) not in seen]
    return Digest(rank, tuple(told), wrapped)


def _by_group(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[Mapping[str, Any]]]:
    """The entries of each group that there is now: of a name that was given twice, those of the newer group."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    newest: dict[tuple[str, str], int] = {}
    rows = []
    for entry in entries:
        name, desc = (str(part) for part in entry["process_group"][:2])
        backend = str(entry["profiling_name"]).partition(":")[0]
        # Without a name (TORCH_DISTRIBUTED_DEBUG=DETAIL) groups cannot be told from generations of one.
        generation = int(entry.get("pg_id", 0)) if name else 0
        newest[backend, name] = max(generation, newest.get((backend, name), generation))
        rows.append((backend, name, desc, generation, entry))
    for backend, name, desc, generation, entry in rows:
        if generation == newest[backend, name]:
            found.setdefault((backend, name, desc), []).append(entry)
    return found


def _known(backend: str, name: str, desc: str, groups: Sequence[Group], dump: Mapping[str, Any]) -> Group:
    """The group as the page knows it, else as an NCCL dump's pg_config does, else without members."""
    alike = [group for group in groups if group.backend == backend]
    for group in alike:
        if group.name == name:
            return group if group.desc else replace(group, desc=desc)
    if not name and len(alike) == 1:
        return alike[0]  # TORCH_DISTRIBUTED_DEBUG=DETAIL hides names; with one group there is no doubt
    config = (dump.get("pg_config") or {}).get(name) if name and backend != "gloo" else None
    members = re.findall(r"\d+", str(config.get("ranks", ""))) if isinstance(config, Mapping) else []
    return Group(backend, name, desc, tuple(int(member) for member in members))


def _group_digest(
    group: Group,
    entries: Sequence[Mapping[str, Any]],
    rooted: Mapping[tuple[str, int], RootedCall],
    now_unix_ns: int | None,
) -> GroupDigest:
    batches: dict[int, list[Mapping[str, Any]]] = {}
    exchanges: dict[int, list[Mapping[str, Any]]] = {}
    for entry in entries:
        if entry.get("is_p2p") or _PEERS.search(str(entry["profiling_name"])):
            exchanges.setdefault(int(entry["p2p_seq_id"]), []).append(entry)
        else:
            batches.setdefault(int(entry["collective_seq_id"]), []).append(entry)
    states = {seq: _batch_state(batch) for seq, batch in batches.items()}
    newest = max(states, default=0)
    still = sorted(seq for seq, state in states.items() if state is not OpState.COMPLETED)
    begun = [seq for seq, state in states.items() if state is not OpState.ENQUEUED]
    kept = sorted({*sorted(states)[-NEWEST:], *still[:RECORDER_ROWS]})
    return GroupDigest(
        group,
        enqueued=newest,
        started=0 if group.backend == "gloo" else max(begun, default=0),
        completed=max(0, still[0] - 1) if still else newest,
        oldest_open=still[0] if still else 0,
        first_kept=min(states, default=0),
        ops=tuple(
            _op(seq, batches[seq], states[seq], rooted.get((group.name, seq)), now_unix_ns) for seq in kept
        ),
        p2p=_open_exchanges(exchanges, group, now_unix_ns),
    )


def _batch_state(batch: Sequence[Mapping[str, Any]]) -> OpState:
    """How far an operation is. Of a coalesced one only the closing entry has events; its parts never move."""
    closing = [entry for entry in batch if _op_name(entry) == "coalesced"]
    return min(_state(entry) for entry in closing or batch)


def _state(entry: Mapping[str, Any]) -> OpState:
    if str(entry["profiling_name"]).startswith("gloo:"):
        return OpState.COMPLETED if entry.get("retired") else OpState.ENQUEUED
    return {"completed": OpState.COMPLETED, "started": OpState.STARTED}.get(
        str(entry["state"]), OpState.ENQUEUED
    )


def _op_name(entry: Mapping[str, Any]) -> str:
    return str(entry["profiling_name"]).partition(":")[2].partition(" ")[0]


def _op(
    seq: int,
    batch: Sequence[Mapping[str, Any]],
    state: OpState,
    call: RootedCall | None,
    now_unix_ns: int | None,
) -> Op:
    parts = [entry for entry in batch if _op_name(entry) != "coalesced"] or list(batch)
    names = dict.fromkeys(_op_name(entry) for entry in parts)
    spec = CallSpec(
        "+".join(names),
        in_sizes=_joined(parts, "input_sizes"),
        in_dtypes=_joined(parts, "input_dtypes"),
        out_sizes=_joined(parts, "output_sizes"),
        out_dtypes=_joined(parts, "output_dtypes"),
    )
    if call is not None and _same_op(call.op, spec.op):
        spec = replace(spec, root=call.root, reduce_op=call.reduce_op)
    timeout_ms = parts[0].get("timeout_ms")
    timeout_s = timeout_ms / 1e3 if isinstance(timeout_ms, int) and timeout_ms > 0 else math.inf
    caller = _caller(parts[0].get("frames") or ())
    return Op(seq, spec, state, caller, _age_s(parts[0], now_unix_ns), timeout_s)


def _joined(parts: Sequence[Mapping[str, Any]], field: str) -> str:
    values = [part.get(field) for part in parts]
    text = str(values[0] if len(values) == 1 else values).replace("'", "")
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... #{zlib.crc32(text.encode()):08x}"  # two long ones that differ still differ


def _same_op(from_python: str, recorded: str) -> bool:
    """The page and the recorder number alike; a name that does not fit says they mean different things."""
    if from_python == "reduce_scatter":
        return "reduce_scatter" in recorded
    return recorded in (from_python, f"_{from_python}_oop")


def _caller(frames: Sequence[Mapping[str, Any]]) -> Frame | None:
    """The innermost frame that is the user's, as far as its path tells; else the innermost that is not torch's own."""
    library: Frame | None = None
    for frame in frames:
        file = str(frame.get("filename", ""))
        if not file or "/torch/" in file:
            continue
        owner = whose(file, CodeHomes(), frozenset())
        found = Frame(str(frame.get("name", "")), file, int(frame.get("line", 0)))
        if owner is Owner.USER:
            return found
        if owner is Owner.LIBRARY and library is None:
            library = found
    return library


def _open_exchanges(
    exchanges: Mapping[int, Sequence[Mapping[str, Any]]], group: Group, now_unix_ns: int | None
) -> tuple[PointToPoint, ...]:
    found: list[PointToPoint] = []
    for seq in sorted(exchanges):
        if _batch_state(exchanges[seq]) is OpState.COMPLETED:
            continue
        waiting = not found  # a stream runs in order: it is stuck on the oldest, the rest is only outstanding
        for entry in exchanges[seq]:
            match = _PEERS.search(str(entry["profiling_name"]))
            if match:
                peer = int(match[3])
                found.append(
                    PointToPoint(
                        P2PKind.SEND if match[1] == "send" else P2PKind.RECV,
                        group.members[peer] if peer < len(group.members) else UNKNOWN,
                        waiting,
                        _age_s(entry, now_unix_ns),
                    )
                )
    return tuple(found[:RECORDER_ROWS])


def _age_s(entry: Mapping[str, Any], now_unix_ns: int | None) -> float:
    created = entry.get("time_created_ns")
    if now_unix_ns is None or not isinstance(created, int) or not created:
        return math.inf
    return max(0.0, (now_unix_ns - created) / 1e9)
