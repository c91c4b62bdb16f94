"""Point-to-point operations, which gloo's Flight Recorder does not see: a row while each is open.

Enters: isend and irecv (send, recv, batch_isend_irecv and the object lists are made of them), monitored_barrier and
`Work.wait`. Leaves: open rows and whether the host is blocked on them, the P2P and COLLECTIVE phases. Never here:
another Work object than torch's own. A row ends when its wait ends, or when the job drops the work without waiting.

`Work.wait` is replaced by a descriptor: fetching `work.wait` notes the wait and hands out a C callable around torch's
own function, whose end of life (right after the call, returned or raised) notes its end. So no frame of ours is ever
in a traceback. Subclasses in Python keep the plain function: pybind11 would take anything else for an override.
"""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident
from operator import index
from time import monotonic_ns
from typing import Any, Callable, Dict, List, Optional, Tuple

from ddetect_probe import lane, page, state
from ddetect_probe.hooks.torch import groups
from ddetect_probe.page import (
    COLLECTIVE,
    L_P2P,
    LANES_AT,
    P2P,
    P2P_AT,
    P2P_WIDTH,
    pack_open_op,
    pack_pair,
)  # fmt: skip
from ddetect_probe.splice import splice
from ddetect_probe.state import KEEP, LANE, mirror

COUNT_AT = (LANES_AT + L_P2P) * 8
WAITING = 6  # offset of the field in its row
Token = List[Any]  # row or -1 (also once a Work has it), the lane's token, the group

_rows_of: Dict[int, Tuple[int, Any]] = {}  # id of a Work -> its row and the weak reference that frees it
_wait: Optional[Wait] = None


def install() -> None:
    """Hook the functions of the torch that is loaded."""
    global _wait
    import torch.distributed as dist

    if not dist.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    for function, params, enters in (
        (c10d.isend, (("group", "tag", "dst", "group_dst"), ("group", "tag", "dst")), enter_send),
        (c10d.irecv, (("group", "tag", "src", "group_src"), ("group", "tag", "src")), enter_recv),
    ):
        if not any(splice(function, enters, leave_p2p, names, result=opened) for names in params):
            state.broken(function.__name__)
    if not splice(c10d.monitored_barrier, enter_monitored_barrier, leave_p2p, ("group",)):
        state.broken("monitored_barrier")
    work = c10d.Work
    _wait = work.wait = Wait(work, work.wait)


def stand_aside_while_compiling() -> None:
    """Give torch its own `Work.wait` while Dynamo traces: at a descriptor it would give up the whole function."""
    # Its callbacks for this are forgotten by torch._dynamo.reset(); the method that calls them is not.
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "CompilationCallbackHandler", None)
    if _wait is not None and handler is not None:
        splice(handler.run_end_callbacks, _nothing, _wait.come_back)
        splice(handler.run_start_callbacks, _wait.stand_aside, _nothing_more)


def _nothing() -> None:
    return None


def _nothing_more(token: None) -> None:
    return None


def enter_send(group: Any, tag: Any, peer: Any, group_peer: Any = None) -> Token:
    """A send begins."""
    return _enter(page.SEND, group, tag, peer, group_peer)


def enter_recv(group: Any, tag: Any, peer: Any, group_peer: Any = None) -> Token:
    """A receive begins, from one rank or from any."""
    kind = page.RECV_ANY if peer is None and group_peer is None else page.RECV
    return _enter(kind, group, tag, peer, group_peer)


def enter_monitored_barrier(group: Any) -> Token:
    """Everyone waits for the group's first rank, which waits for everyone (peer -1)."""
    found = groups.find(group)
    if found is None:
        return [-1, -1, None]
    peer = found.members[0] if found.members and found.members[0] != state.slots[page.S_RANK] else -1
    return _open_row(page.MONITORED_BARRIER, found, peer, 0, COLLECTIVE)


def _enter(kind: int, group: Any, tag: Any, peer: Any, group_peer: Any) -> Token:
    found = groups.find(group)
    if found is None:
        return [-1, -1, None]
    try:
        if peer is None:
            peer = -1 if group_peer is None else found.members[group_peer]
        peer = index(peer)
    except (IndexError, TypeError):  # the job's mistake, which torch is about to tell it
        return [-1, -1, None]
    return _open_row(kind, found, peer, tag if type(tag) is int else 0, P2P)


def _open_row(kind: int, found: groups.Known, peer: int, tag: int, phase: int) -> Token:
    slots = state.slots
    now = monotonic_ns()
    mirror.p2p = count = mirror.p2p + 1
    pack_pair(state.raw, COUNT_AT, count, now)
    if get_ident() == state.owner:
        before = mirror.phase
        mirror.phase = phase
        slots[LANE] = (now & KEEP) | phase
    else:
        before = lane.enter(phase, now)
    try:
        row = P2P_AT + state.free_rows.pop() * P2P_WIDTH
    except IndexError:  # more are open than there are rows
        return [-1, before, found]
    # waiting is 1: inside the call the host is blocked on it
    pack_open_op(state.raw, row * 8, count * 2, kind, peer, tag, found.number, now, 1, 0)
    return [row, before, found]


def opened(token: Optional[Token], work: Any) -> Any:
    """The operation is under way: the host goes on, and the row lives with the Work. Returns the work, always."""
    try:
        if token is not None and work is not None:
            row, _, found = token
            if found is not None:
                found.p2p += 1
            if row >= 0:
                token[0] = -1
                state.slots[row + WAITING] = 0
                key = id(work)
                earlier = _rows_of.get(key)
                if earlier is not None:
                    _free(earlier[0])
                _rows_of[key] = (row, weakref.ref(work, functools.partial(_dropped, key)))
    except Exception:
        state.broken("opened")
    return work


def leave_p2p(token: Optional[Token]) -> None:
    """The call returned or raised; a row that no Work took over is done."""
    if token is None:
        return
    row, before, _ = token
    if row >= 0:
        _free(row)
    if before >= state.floor:
        mirror.phase = before
        state.slots[LANE] = (monotonic_ns() & KEEP) | before
    else:
        lane.leave(before, monotonic_ns())


def _free(row: int) -> None:
    state.slots[row + 1] = 0  # one store: free
    state.free_rows.append((row - P2P_AT) // P2P_WIDTH)


def _dropped(key: int, reference: Any) -> None:
    try:
        found = _rows_of.get(key)
        if found is not None and found[1] is reference:
            del _rows_of[key]
            _free(found[0])
    except Exception:
        state.broken("dropped")


def forget_rows() -> None:
    """In a forked child: the parent's operations are the parent's."""
    _rows_of.clear()


class Wait:
    """What stands in for `Work.wait`. Reading it begins a wait."""

    def __init__(self, owner: type, original: Any) -> None:
        self._owner = owner
        self._original = original
        self.__doc__ = original.__doc__
        self.__name__ = "wait"
        self._broken = False

    def __get__(self, work: Any, owner: Any = None) -> Callable[..., Any]:
        if work is None:
            return self._original  # type: ignore[no-any-return]
        if type(work) is self._owner:
            try:
                found = _rows_of.get(id(work))
                # Inside a collective of its own there is nothing new to be said.
                if found is not None or mirror.phase != COLLECTIVE or get_ident() != state.owner:
                    return _begin(self._original, work, found)
            except Exception as error:
                if not state.ours(error):
                    raise
                self._broken = True
                self.stand_aside()
                state.broken("Work.wait")
        return self._original.__get__(work, owner)  # type: ignore[no-any-return]

    def stand_aside(self) -> None:
        """Put torch's own function back."""
        setattr(self._owner, "wait", self._original)  # noqa: B010 - mypy does not know it

    def come_back(self, token: None) -> None:
        """Stand in for it again."""
        if not self._broken:
            setattr(self._owner, "wait", self)  # noqa: B010


class Waiting(functools.partial):  # type: ignore[type-arg]
    """`work.wait` for the length of one call."""

    __slots__ = ("begun",)

    begun: Tuple[int, int, int]  # the lane's token, the phase we wrote, the row (-1: collective)

    def __del__(self) -> None:
        try:
            before, phase, row = self.begun
            if row >= 0:
                found = _rows_of.pop(id(self.args[0]), None)
                if found is not None:
                    _free(found[0])
            # A lane that says something else by now belongs to somebody else (`wait` was kept, not called).
            if before < state.floor:
                lane.leave(before, monotonic_ns(), only_from=phase)
            elif mirror.phase == phase:
                mirror.phase = before
                state.slots[LANE] = (monotonic_ns() & KEEP) | before
        except Exception:
            state.broken("Work.wait")


def _begin(original: Any, work: Any, found: Optional[Tuple[int, Any]]) -> Waiting:
    """Note that the host is about to wait for this work."""
    waiting = Waiting(original, work)
    row, phase = -1, COLLECTIVE
    if found is not None:
        row, phase = found[0], P2P
        state.slots[row + WAITING] = 1
    if get_ident() == state.owner:
        before = mirror.phase
        mirror.phase = phase
        state.slots[LANE] = (monotonic_ns() & KEEP) | phase
    else:
        before = lane.enter(phase, monotonic_ns())
    waiting.begun = (before, phase, row)
    return waiting
