"""Who waits for whom. A Scene enters, Waits leave: what each rank is blocked on, whom that makes waited for, cycles.

An edge exists only where the host or the stream is blocked: an irecv posted early, or an async gloo collective
while the host sleeps, is outstanding, not waiting. Absence is claimed only where a recorder was read, or where the
rank's own sighting says that it is elsewhere (`presumed`); a rank nobody could read is `blind` and never accused.
Never here: what a culprit does, which finding wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddetect.correlate.collectives import HOST_BACKENDS, Standing, calls_at, op_name
from ddetect.correlate.graph import components
from ddetect.correlate.kinds import OWN_BUSINESS, Kind, Posture
from ddetect.correlate.scene import Bools, Scene
from ddetect.model import UNKNOWN, Group, Ints, P2PKind, Phase, Waiting

ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
_IN_COMMUNICATION = (Phase.COLLECTIVE, Phase.P2P)
_REDUCER = re.compile(r"\bc10d::|\bgloo::|\bp?nccl[A-Z]")
_ELSEWHERE = (Phase.STARTING, Phase.DATA, Phase.LEAVING, Phase.EXITING)


@dataclass(frozen=True, eq=False)
class Wait:
    """An operation and the ranks that are blocked in it; ranks in numbers, sorted."""

    on: str
    waiters: tuple[int, ...]
    missing: tuple[int, ...] = ()  # have certainly not entered
    presumed: tuple[int, ...] = ()  # recorder unread, but their own sighting says they are elsewhere
    blind: tuple[int, ...] = ()  # nothing known
    entered: tuple[int, ...] = ()
    root: int = UNKNOWN
    group: Group | None = None
    seq: int | None = None
    standing: Standing | None = None
    p2p: bool = False
    any_one: bool = False  # one of the missing is enough
    doubtful: bool = False  # the ring dropped something, or the members are not certain

    @property
    def targets(self) -> tuple[int, ...]:
        """Whom it waits for."""
        return tuple(sorted({*self.missing, *self.presumed}))

    @property
    def label(self) -> str:
        """How a sentence calls it: "all_reduce #412 of default_pg"."""
        number = f" #{self.seq}" if self.seq else ""
        return f"{self.on}{number}" + (f" of {self.group.label}" if self.group else "")

    def as_waiting(self) -> Waiting:
        """As a verdict lists it."""
        group = self.group
        return Waiting(
            self.waiters, self.on, group.backend if group else "", group.label if group else "", self.seq
        )


@dataclass(frozen=True, eq=False)
class Waits:
    """The wait-for graph, bipartite: ranks and the operations they are blocked in."""

    all: tuple[Wait, ...]
    blocked: Bools  # ranks whose host is held by one of them
    waited: Bools  # ranks that are certainly waited for
    presumed: Bools  # ranks that are waited for as far as their sighting tells
    murky: Bools  # ranks inside torch.distributed, nobody knows in what
    cycles: tuple[tuple[int, ...], ...] = ()

    def roots(self, scene: Scene) -> tuple[int, ...]:
        """Ranks that are waited for and wait for no rank."""
        return tuple(
            int(rank) for rank in scene.ranks[(self.waited | self.presumed) & ~self.blocked & ~self.murky]
        )

    def waiting_for(self, ranks: Iterable[int]) -> tuple[Wait, ...]:
        """The operations that miss one of these ranks."""
        wanted = set(ranks)
        return tuple(wait for wait in self.all if wanted & set(wait.targets))


def find_waits(scene: Scene) -> Waits:
    """Build the graph."""
    in_call = _in_communication(scene)
    host_held = np.zeros(len(scene.ranks), bool)
    found: list[Wait] = []
    for standing, waiters in _blocked_members(scene, in_call, host_held):
        found += _collective_waits(scene, standing, waiters)
    found += _point_to_point_waits(scene, host_held)
    found += _rendezvous_waits(scene, host_held)
    talking = (np.isin(scene.kind, (Kind.COLLECTIVE, Kind.P2P)) | idle_in_backward(scene)) & scene.live
    murky = talking & ~host_held
    if murky.any() and not found:
        found += _waits_from_stacks(scene, murky, host_held)
        murky = talking & ~host_held
    elif murky.any():
        # A recorder that was not read cannot show the operation; its rank waits all the same.
        held = murky & ~scene.progress_read
        host_held |= held
        found += [
            Wait(op or "torch.distributed", tuple(int(r) for r in ranks), doubtful=True)
            for op, ranks in _by_op(scene, held).items()
        ]
        murky = talking & ~host_held
    return _graph(scene, found, host_held, murky)


# ---------------------------------------------------------------- who is blocked


def _in_communication(scene: Scene) -> Bools:
    """Ranks whose host is inside torch.distributed, if an operation of theirs is open."""
    kind, posture, phase = scene.kind, scene.posture, scene.phase
    inside = np.isin(kind, (Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD, Kind.DEVICE_SYNC))
    calls = np.isin(phase, _IN_COMMUNICATION)
    idle = ~np.isin(posture, (Posture.ASLEEP, Posture.BUSY, Posture.DISK, Posture.FILE, Posture.TERMINAL))
    inside |= calls & np.isin(kind, (Kind.USER, Kind.OPTIMIZER, Kind.LOCK)) & idle
    # Without a page nobody tells whether a futex under the user's line is Work.wait(); the open operation does.
    inside |= (phase == UNKNOWN) & (kind == Kind.USER) & (posture == Posture.FUTEX)
    inside |= (kind == Kind.UNREAD) & (calls | ~np.isin(phase, _ELSEWHERE))
    return np.asarray(inside & ~scene.gone & ~scene.stopped)


def idle_in_backward(scene: Scene) -> Bools:
    """Without a recorder: a rank asleep in backward, in every look, waits there for DDP's all-reduce."""
    asleep = np.isin(scene.posture, (Posture.FUTEX, Posture.POLL, Posture.SOCKET))
    return np.asarray(
        (scene.kind == Kind.BACKWARD) & scene.steady & asleep & ~scene.progress_read & ~scene.stopped
    )


def reducer_seen(scene: Scene, ranks: Iterable[int]) -> bool:
    """Whether a native stack of one of these ranks, in any look, is inside DDP's reducer or a backend."""
    pids = {scene.pid(int(rank)) for rank in ranks}
    for sample in scene.snapshot.samples:
        for row in np.flatnonzero(np.isin(sample.pid, [pid for pid in pids if pid])):
            main = sample.sightings[int(sample.sighting[row])].main
            if main is not None and any(_REDUCER.search(symbol) for symbol in main.native):
                return True
    return False


def _minds_own_business(scene: Scene) -> Bools:
    """Ranks whose host is plainly elsewhere, whatever their device still has to do."""
    return np.asarray(
        np.isin(scene.kind, tuple(OWN_BUSINESS))
        | (scene.kind == Kind.USER)
        & np.isin(scene.posture, (Posture.ASLEEP, Posture.FILE, Posture.TERMINAL, Posture.DISK))
    )


def _blocked_members(scene: Scene, in_call: Bools, host_held: Bools) -> list[tuple[Standing, Ints]]:
    """Per group the members that are blocked in it. Marks those whose host is held."""
    own = _minds_own_business(scene)
    blocked: list[tuple[Standing, Ints]] = []
    times_open = np.zeros(len(scene.ranks), np.int64)
    for standing in scene.standings:
        ranks = standing.members[(standing.oldest_open > 0) & standing.read]
        at = scene.positions(ranks)
        at = at[~scene.gone[at]]
        if not standing.on_device:
            at = at[in_call[at]]
            times_open[at] += 1
        if len(at):
            blocked.append((standing, at))
    several = np.flatnonzero(times_open > 1)
    chosen = {int(i): _group_in_stack(scene, int(scene.ranks[i]), blocked, int(i)) for i in several}
    result = []
    for standing, at in blocked:
        if standing.on_device:
            host_held[at[~own[at]]] = True
        else:
            at = (
                np.array([i for i in at if chosen.get(int(i)) in (None, standing.group)], np.int64)
                if chosen
                else at
            )
            host_held[at] = True
        result.append((standing, scene.ranks[at]))
    return result


def _group_in_stack(scene: Scene, rank: int, blocked: list[tuple[Standing, Ints]], at: int) -> Group | None:
    """With operations open in several gloo groups, the one whose operation the stack names; None if it does not."""
    op = scene.rank_process(rank).doing.op
    fitting = []
    for standing, members in blocked:
        if at not in members or standing.on_device:
            continue
        seq = int(standing.oldest_open[np.searchsorted(standing.members, rank)])
        calls = calls_at(scene.snapshot, standing, seq)
        if any(rank in call.ranks and op_name(call.signature) == op for call in calls):
            fitting.append(standing.group)
    return fitting[0] if len(fitting) == 1 else None


# ---------------------------------------------------------------- operations


def _collective_waits(scene: Scene, standing: Standing, waiters: Ints) -> list[Wait]:
    at = np.searchsorted(standing.members, waiters)
    waits = []
    for seq in np.unique(standing.oldest_open[at]):
        here = waiters[standing.oldest_open[at] == seq]
        if not len(here):
            continue
        known = standing.read & ~standing.dropped
        absent = known & (standing.enqueued < seq)
        silent = standing.members[~known]
        presumed, blind = _presume(scene, silent)
        sure = standing.members[absent]
        calls = calls_at(scene.snapshot, standing, int(seq))
        mine = [call.signature for call in calls if np.isin(here, call.ranks).any()]
        first = min(mine, key=lambda signature: (signature.op, signature.root)) if mine else None
        roots = {signature.root for signature in mine if signature.root != UNKNOWN}
        waits.append(
            Wait(
                op_name(first) if first else (scene.rank_process(int(here[0])).doing.op or "a collective"),
                _numbers(here),
                _numbers(sure),
                _numbers(presumed),
                _numbers(blind),
                _numbers(standing.members[known & ~absent]),
                roots.pop() if len(roots) == 1 else UNKNOWN,
                standing.group,
                int(seq),
                standing,
                doubtful=not standing.sure_members,
            )
        )
    return waits


def _presume(scene: Scene, ranks: Ints) -> tuple[Ints, Ints]:
    """Split ranks with unread recorders into those that are elsewhere by their own sighting and the blind ones."""
    at = np.array([scene.position(int(rank)) for rank in ranks], np.int64)
    known = at >= 0
    at, ranks = at[known], ranks[known]
    kind, phase = scene.kind[at], scene.phase[at]
    talks = np.isin(kind, (Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD, Kind.DEVICE_SYNC)) | np.isin(
        phase, _IN_COMMUNICATION
    )
    never = ~scene.live[at] & ~scene.gone[at] & ~scene.said_unread[at]
    elsewhere = scene.gone[at] | scene.stopped[at] | never
    elsewhere |= (kind != Kind.UNREAD) & ~talks & ~scene.asks_lock[at]
    elsewhere |= (kind != Kind.UNREAD) & scene.asks_lock[at] & (phase != UNKNOWN) & ~talks
    elsewhere |= (kind == Kind.UNREAD) & np.isin(phase, _ELSEWHERE)
    elsewhere |= (kind == Kind.UNREAD) & (scene.posture[at] == Posture.DISK)
    return ranks[elsewhere], ranks[~elsewhere & ~talks]


def _point_to_point_waits(scene: Scene, host_held: Bools) -> list[Wait]:
    rows = scene.snapshot.p2p
    posted = {
        (int(rows.rank[i]), P2PKind(int(rows.kind[i])), int(rows.peer[i]), int(rows.group[i]))
        for i in range(len(rows))
    }
    receives_any = {(rank, group) for rank, kind, _, group in posted if kind is P2PKind.RECV_ANY}
    waits = []
    barriers: dict[int, list[int]] = {}
    for i in np.flatnonzero(rows.waiting > 0):
        rank, kind = int(rows.rank[i]), P2PKind(int(rows.kind[i]))
        peer, number = int(rows.peer[i]), int(rows.group[i])
        position = scene.position(rank)
        if position < 0 or scene.gone[position] or scene.stopped[position]:
            continue
        group = scene.snapshot.groups[number] if 0 <= number < len(scene.snapshot.groups) else None
        if group is not None and group.backend not in HOST_BACKENDS and _minds_own_business(scene)[position]:
            continue  # posted on the device, outstanding; its host is elsewhere and does not wait for it
        if kind is P2PKind.MONITORED_BARRIER:
            barriers.setdefault(number, []).append(rank)
            continue
        host_held[position] = True
        if kind is P2PKind.RECV_ANY or peer == UNKNOWN:
            others = group.members if group and group.members else tuple(int(r) for r in scene.ranks)
            missing = tuple(r for r in others if r != rank and (r, P2PKind.SEND, rank, number) not in posted)
            missing = missing if len(missing) == len(others) - (rank in others) else ()
            waits.append(Wait("recv", (rank,), missing, group=group, p2p=True, any_one=len(missing) > 1))
            continue
        answer = P2PKind.RECV if kind is P2PKind.SEND else P2PKind.SEND
        met = (peer, answer, rank, number) in posted or (
            kind is P2PKind.SEND and (peer, number) in receives_any
        )
        on = "send" if kind is P2PKind.SEND else "recv"
        words = f"{on} to rank {peer}" if on == "send" else f"{on} from rank {peer}"
        waits.append(
            Wait(
                words,
                (rank,),
                () if met else (peer,),
                entered=(peer,) if met else (),
                group=group,
                p2p=True,
                doubtful=scene.phase[position]
                == UNKNOWN,  # from its stack: what it posted before is not known
            )
        )
    for number, ranks in barriers.items():
        group = scene.snapshot.groups[number] if 0 <= number < len(scene.snapshot.groups) else None
        members = group.members if group and group.members else tuple(int(r) for r in scene.ranks)
        host_held[scene.positions(np.array(ranks, np.int64))] = True
        outside = np.array([r for r in members if r not in ranks], np.int64)
        # Without a page its row cannot be seen: such a rank is presumed by its stack, never accused by silence.
        paged = np.array(
            [scene.position(int(r)) >= 0 and scene.phase[scene.position(int(r))] >= 0 for r in outside], bool
        )
        presumed, blind = _presume(scene, outside[~paged]) if len(outside) else (outside, outside)
        waits.append(
            Wait(
                "monitored_barrier",
                tuple(sorted(ranks)),
                _numbers(outside[paged]) if len(outside) else (),
                _numbers(presumed),
                _numbers(blind),
                tuple(sorted(ranks)),
                group=group,
                p2p=True,
            )
        )
    return waits


def _rendezvous_waits(scene: Scene, host_held: Bools) -> list[Wait]:
    """Ranks that make a process group wait for those that do not come."""
    by_stack = (scene.kind == Kind.RENDEZVOUS) & scene.live
    starting = scene.live & (scene.phase == Phase.STARTING) & ~by_stack
    absent = ~scene.live & ~scene.gone & ~scene.said_unread & (scene.ranks < scene.world)
    joining = ((scene.phase == Phase.JOINING) | by_stack) & scene.live & ~scene.stopped
    if not joining.any():
        return []
    outside = scene.live & ~joining
    new_group = [
        int(r) for r in scene.ranks[joining & by_stack] if scene.rank_process(int(r)).doing.op == "new_group"
    ]
    host_held |= joining
    ranks = _numbers(scene.ranks[joining])
    if new_group and not (starting | absent).any():
        talks = np.isin(scene.kind, (Kind.COLLECTIVE, Kind.P2P))
        missing = outside & ((scene.kind != Kind.UNREAD) | np.isin(scene.phase, _ELSEWHERE))
        # Who is in a collective is held there: an edge all the same, so that a cycle can show.
        missing = missing & ~(talks & ~host_held)
        return [
            Wait(
                "new_group",
                ranks,
                (),
                _numbers(scene.ranks[missing | absent]),
                _numbers(scene.ranks[outside & ~missing]),
            )
        ]
    late = starting | absent | scene.stopped & outside
    late |= (
        outside
        & (scene.phase == UNKNOWN)
        & ~np.isin(scene.kind, (Kind.UNREAD, Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD))
    )
    left = scene.gone & (scene.ranks < scene.world)
    blind = outside & ~late & (scene.phase == UNKNOWN) & (scene.kind == Kind.UNREAD)
    return [
        Wait(
            "init_process_group",
            ranks,
            _numbers(scene.ranks[late | left]),
            (),
            _numbers(scene.ranks[blind]),
            ranks,
        )
    ]


def _waits_from_stacks(scene: Scene, murky: Bools, host_held: Bools) -> list[Wait]:
    """No recorder told anything: ranks in torch.distributed wait for those that their stacks show elsewhere."""
    held = murky & ~scene.progress_read
    if not held.any():
        return []
    host_held |= held
    rest = scene.ranks[~held & (scene.ranks < scene.world) & ~murky]
    presumed, blind = _presume(scene, rest)
    return [
        Wait(
            op or "torch.distributed",
            tuple(int(r) for r in ranks),
            (),
            _numbers(presumed),
            _numbers(blind),
            doubtful=not reducer_seen(scene, ranks),
        )
        for op, ranks in _by_op(scene, held).items()
    ]


def _by_op(scene: Scene, which: Bools) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank in scene.ranks[which]:
        doing = scene.rank_process(int(rank)).doing
        op = "backward (DDP's all_reduce)" if doing.kind is Kind.BACKWARD else doing.op
        found.setdefault(op, []).append(int(rank))
    return found


def _numbers(ranks: Ints) -> tuple[int, ...]:
    return tuple(sorted(int(rank) for rank in ranks))


# ---------------------------------------------------------------- the graph


def _graph(scene: Scene, waits: list[Wait], host_held: Bools, murky: Bools) -> Waits:
    waited = np.zeros(len(scene.ranks), bool)
    presumed = np.zeros(len(scene.ranks), bool)
    for wait in waits:
        if wait.any_one:
            continue
        named = {wait.root} if wait.on in ROOTED and wait.root in wait.targets else set(wait.targets)
        _mark(scene, waited, named & set(wait.missing))
        _mark(scene, presumed, named & set(wait.presumed))
    if not (waited | presumed)[~host_held].any():
        for wait in waits:  # any one of several would do: they are named only when nobody else is
            if wait.any_one:
                _mark(scene, waited, set(wait.missing))
    return Waits(tuple(waits), host_held, waited, presumed, murky, _cycles(scene, waits, host_held))


def _mark(scene: Scene, column: Bools, ranks: Iterable[int]) -> None:
    at = [scene.position(rank) for rank in ranks]
    column[[i for i in at if i >= 0]] = True


def _cycles(scene: Scene, waits: list[Wait], host_held: Bools) -> tuple[tuple[int, ...], ...]:
    """Strongly connected ranks: each waits for another of them. Only certain absences make an edge."""
    held = set(scene.ranks[host_held].tolist())
    targets = {rank for wait in waits for rank in wait.missing if rank in held}
    # Operations are nodes too (negative), so that two large groups do not make an edge per pair of ranks.
    edges: dict[int, set[int]] = {rank: set() for rank in targets}
    for number, wait in enumerate(waits, 1):
        if wait.any_one and not set(wait.missing) <= held:
            continue
        rooted = wait.on in ROOTED and wait.root in wait.missing
        edges[-number] = targets & ({wait.root} if rooted else set(wait.missing))
        for waiter in targets.intersection(wait.waiters):
            edges[waiter].add(-number)
    circles = (tuple(node for node in component if node >= 0) for component in components(edges))
    return tuple(sorted(component for component in circles if len(component) > 1))
