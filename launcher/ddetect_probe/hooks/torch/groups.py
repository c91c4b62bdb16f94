"""Process groups: a number, a name and members for each, written to the page whenever they change.

Enters: torch's own table (`distributed_c10d._world`). Leaves: `Known`, by which the call hooks find a group's number,
and the "groups" text. Asked after init and destroy, when a call meets a group nobody knows, and by the tick: so groups
made inside torch (meshes, split_group) are seen too. Never here: a strong reference to a group; when it dies is the
job's business.
"""

from __future__ import annotations

import json
import sys
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ddetect_probe import page, state

Row = Tuple[int, str, str, str, str]


class Known:
    """A process group as the hooks need it."""

    __slots__ = ("by_device", "counts_p2p", "members", "number", "p2p", "ref")

    def __init__(self, ref: Callable[[], Any], number: int, members: Tuple[int, ...]) -> None:
        self.ref = ref
        self.number = number
        self.members = members
        self.by_device: Optional[Dict[str, Tuple[int, bool]]] = (
            None  # more than one backend: number, is it gloo
        )
        self.counts_p2p = (
            False  # gloo numbers sends and receives together with collectives; the recorder does not
        )
        self.p2p = 0


known: Dict[int, Known] = {}
default: Optional[Known] = None
_numbers: Dict[Tuple[str, str, str], int] = {}
_looked_at: Tuple[int, int, int] = (0, 0, 0)
_lock = threading.Lock()


def find(group: Any) -> Optional[Known]:
    """The group of a call (None is the default one), or None for a group this rank is not in."""
    if group is None:
        if default is None or default.ref() is None:
            refresh()
        return default
    found = known.get(id(group))
    if found is not None and found.ref() is group:
        return found
    if not hasattr(group, "_get_sequence_number_for_group"):
        return None  # NON_GROUP_MEMBER
    refresh()
    return known.get(id(group))


def refresh_if_changed() -> None:
    """For the tick: look again when torch's table has changed."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None and _state_of(c10d) != _looked_at:
        refresh()


def refresh() -> None:
    """Read torch's table and write the groups into the page."""
    global default, known, _looked_at
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not _lock.acquire(timeout=1.0):
        return
    try:
        world = c10d._world
        looked_at = _state_of(c10d)
        rows: List[Row] = []
        fresh: Dict[int, Known] = {}
        for group, name in list(world.pg_names.items()):
            places = world.pg_group_ranks.get(group, {})
            members = tuple(sorted(places, key=places.__getitem__))
            entry = _describe(c10d, group, str(name), members, rows)
            earlier = known.get(id(group))
            same = earlier is not None and earlier.ref() is group and earlier.number == entry.number
            fresh[id(group)] = (
                earlier if same and earlier is not None else entry
            )  # it counts p2p, meanwhile too
        known = fresh
        default_group = getattr(world, "default_pg", None)
        default = fresh.get(id(default_group)) if default_group is not None else None
        if rows:  # after destroy_process_group the page keeps what it was a member of; PG_STATE says it left
            _write(rows)
        _looked_at = looked_at
    finally:
        _lock.release()


def forget_lock() -> None:
    """In a forked child: the lock may have been held by a thread that is not here any more."""
    global _lock
    _lock = threading.Lock()


def _state_of(c10d: Any) -> Tuple[int, int, int]:
    world = c10d._world
    return len(world.pg_names), getattr(world, "group_count", 0), id(getattr(world, "default_pg", None))


def _describe(c10d: Any, group: Any, name: str, members: Tuple[int, ...], rows: List[Row]) -> Known:
    desc = str(getattr(group, "group_desc", "") or "")
    ranks = format_ranks(members)
    backends = parse_backends(str(c10d._world.pg_backend_config.get(group, "")))
    if not backends:
        backends = {"": str(c10d._world.pg_map.get(group, ("",))[0])}
    numbers: Dict[str, int] = {}
    for backend in dict.fromkeys(backends.values()):
        number = _numbers.setdefault((name, backend, ranks), len(_numbers))
        numbers[backend] = number
        rows.append((number, name, desc, backend, ranks))
    first = next(iter(numbers))
    entry = Known(weakref.ref(group), numbers[first], members)
    entry.counts_p2p = first == "gloo"
    if len(numbers) > 1:
        entry.by_device = {device: (numbers[b], b == "gloo") for device, b in backends.items()}
    return entry


def parse_backends(config: str) -> Dict[str, str]:
    """Backend by device type, of torch's "cpu:gloo,cuda:nccl"."""
    pairs = (part.partition(":") for part in config.split(",") if ":" in part)
    return {device.strip(): backend.strip() for device, _, backend in pairs}


def format_ranks(ranks: Tuple[int, ...]) -> str:
    """Fold ranks into "0-3,7"."""
    runs: List[List[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _write(rows: List[Row]) -> None:
    room = page._TEXTS["groups"][1] - 16
    kept: List[str] = []
    length = 2
    for row in sorted(rows):
        item = json.dumps(row, separators=(",", ":"))
        length += len(item) + 1
        if length > room:
            break
        kept.append(item)
    state.slots[page.S_GROUPS_DROPPED] = int(len(kept) < len(rows))
    state.text("groups", "[" + ",".join(kept) + "]")
