"""Who waits for whom. A Scene enters, Waits leave: what each rank is blocked on, whom that makes waited for, cycles.

An edge exists only where the host or the stream is blocked: an irecv posted early, or an async gloo collective
while the host sleeps, is outstanding, not waiting. Absence is claimed only where a recorder was read, or where the
rank's own sighting says that it is elsewhere (`presumed`); a rank nobody could read is `blind` and never accused.
Never here: what a culprit does, which finding wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddetect.correlate.collectives import Standing, calls_at
from ddetect.correlate.graph import components
from ddetect.correlate.point_to_point import point_to_point_waits
from ddetect.correlate.posted import table_full
from ddetect.correlate.rendezvous import rendezvous_waits
from ddetect.correlate.scene import ELSEWHERE, Bools, Scene
from ddetect.correlate.wait import (
    IN_COMMUNICATION,
    Wait,
    elsewhere_in_step,
    in_step,
    minds_own_business,
    numbers,
    presume,
)
from ddetect.frameworks.framework import Needs
from ddetect.frameworks.kinds import Kind, Posture
from ddetect.model import UNKNOWN, Group, Ints, Phase


@dataclass(frozen=True, eq=False)
class Waits:
    """The wait-for graph, bipartite: ranks and the operations they are blocked in."""

    all: tuple[Wait, ...]
    blocked: Bools  # ranks whose host is held by one of them
    waited: Bools  # ranks that are certainly waited for
    presumed: Bools  # ranks that are waited for as far as their sighting tells
    murky: Bools  # ranks inside an operation, nobody knows in what
    cycles: tuple[tuple[int, ...], ...] = ()

    def roots(self, scene: Scene) -> tuple[int, ...]:
        """Ranks that are waited for and wait for no rank."""
        return tuple(
            int(rank) for rank in scene.members[(self.waited | self.presumed) & ~self.blocked & ~self.murky]
        )

    def waiting_for(self, ranks: Iterable[int]) -> tuple[Wait, ...]:
        """The operations that miss one of these ranks."""
        wanted = set(ranks)
        return tuple(wait for wait in self.all if wanted & set(wait.targets))


def find_waits(scene: Scene) -> Waits:
    """Build the graph."""
    in_call = _in_communication(scene)
    host_held = np.zeros(len(scene.members), bool)
    found: list[Wait] = []
    for standing, waiters in _blocked_members(scene, in_call, host_held):
        found += _collective_waits(scene, standing, waiters)
    recorded = bool(found)
    found += point_to_point_waits(scene, host_held)
    found += rendezvous_waits(scene, host_held)
    talking = (
        np.isin(scene.kind, (Kind.COLLECTIVE, Kind.P2P)) | idle_in_backward(scene) | _may_meet_in_step(scene)
    )
    talking &= scene.live
    murky = talking & ~host_held
    if murky.any() and not recorded:
        found += _waits_from_stacks(scene, murky, host_held)
        murky = talking & ~host_held
    elif murky.any():
        # A recorder that was not read cannot show the operation; its rank waits all the same.
        held = murky & ~scene.progress_read
        host_held |= held
        found += [
            Wait(op or scene.framework.words.inside, tuple(int(r) for r in ranks), doubtful=True)
            for op, ranks in _by_op(scene, held).items()
        ]
        murky = talking & ~host_held
    return _graph(scene, found, host_held, murky & ~_works_before_entering(scene, found, murky))


# ---------------------------------------------------------------- who is blocked


def _in_communication(scene: Scene) -> Bools:
    """Ranks whose host is inside an operation, if an operation of theirs is open."""
    kind, posture, phase = scene.kind, scene.posture, scene.phase
    inside = np.isin(kind, (Kind.COLLECTIVE, Kind.P2P, Kind.BACKWARD, Kind.DEVICE_SYNC))
    calls = np.isin(phase, IN_COMMUNICATION)
    idle = ~np.isin(posture, (Posture.ASLEEP, Posture.BUSY, Posture.DISK, Posture.FILE, Posture.TERMINAL))
    inside |= calls & np.isin(kind, (Kind.USER, Kind.OPTIMIZER, Kind.LOCK)) & idle
    # Without a page nobody tells whether a futex under the user's line is Work.wait(); the open operation does.
    inside |= (phase == UNKNOWN) & (kind == Kind.USER) & (posture == Posture.FUTEX)
    inside |= (kind == Kind.UNREAD) & (calls | ~np.isin(phase, ELSEWHERE))
    return np.asarray(inside & ~scene.gone & ~scene.frozen)


def _may_meet_in_step(scene: Scene) -> Bools:
    """Members in a compiled step of which no number tells whether others take part in it; a job of one has none."""
    return np.asarray(in_step(scene) & ~scene.progress_read & ~scene.aside & (scene.world > 1))


def idle_in_backward(scene: Scene) -> Bools:
    """Without a recorder: a rank asleep in backward, in every look, waits there for DDP's all-reduce."""
    asleep = np.isin(scene.posture, (Posture.FUTEX, Posture.POLL, Posture.SOCKET))
    return np.asarray(
        (scene.kind == Kind.BACKWARD) & scene.steady & asleep & ~scene.progress_read & ~scene.frozen
    )


def reducer_seen(scene: Scene, ranks: Iterable[int]) -> bool:
    """Whether a native stack of one of these ranks, in any look, is inside DDP's reducer or a backend."""
    pids = {scene.pid(int(rank)) for rank in ranks}
    for sample in scene.snapshot.samples:
        for row in np.flatnonzero(np.isin(sample.pid, [pid for pid in pids if pid])):
            threads = sample.sightings[int(sample.sighting[row])].threads
            if any(scene.framework.native_call.search(symbol) for one in threads for symbol in one.native):
                return True
    return False


def _blocked_members(scene: Scene, in_call: Bools, host_held: Bools) -> list[tuple[Standing, Ints]]:
    """Per group the members that are blocked in it. Marks those whose host is held."""
    own = minds_own_business(scene)
    blocked: list[tuple[Standing, Ints]] = []
    times_open = np.zeros(len(scene.members), np.int64)
    for standing in scene.standings:
        ranks = standing.members[(standing.oldest_open > 0) & standing.read]
        at = scene.positions(ranks)
        at = at[~scene.gone[at]]
        if standing.announced:
            at = _blocked_in_step(scene, standing, at)
        elif not standing.on_device:
            at = at[in_call[at]]
            times_open[at] += 1
        if len(at):
            blocked.append((standing, at))
    several = np.flatnonzero(times_open > 1)
    chosen = _groups_in_stacks(scene, blocked, several)
    result = []
    for standing, at in blocked:
        if standing.on_device:
            host_held[at[~own[at]]] = True
        elif standing.announced:
            host_held[at] = True
        else:
            at = (
                np.array([i for i in at if chosen.get(int(i)) in (None, standing.group)], np.int64)
                if chosen
                else at
            )
            host_held[at] = True
        result.append((standing, scene.members[at]))
    return result


def _blocked_in_step(scene: Scene, standing: Standing, at: Ints) -> Ints:
    """Of those that are in a step with this group's numbers: who certainly cannot leave it, and who minds nothing else.

    While a member has not begun the step, nobody leaves it, whatever he does in there.
    """
    mine = np.searchsorted(standing.members, scene.members[at])
    known = standing.read & ~standing.dropped
    last = standing.enqueued[known].min() if known.any() else 0
    ahead = standing.oldest_open[mine] > last
    return at[(ahead | ~elsewhere_in_step(scene)[at]) & ~scene.frozen[at]]


def _groups_in_stacks(
    scene: Scene, blocked: list[tuple[Standing, Ints]], several: Ints
) -> dict[int, Group | None]:
    """With operations open in several gloo groups, the one whose operation the stack names; None if it does not."""
    fitting: dict[int, list[Group]] = {int(i): [] for i in several}
    ops = {i: scene.rank_process(int(scene.members[i])).doing.op for i in fitting}
    asked = np.zeros(len(scene.members), bool)
    asked[several] = True
    for standing, members in blocked if fitting else ():
        if standing.on_device or standing.announced:
            continue
        here = members[asked[members]]
        seqs = standing.oldest_open[np.searchsorted(standing.members, scene.members[here])]
        for seq in np.unique(seqs):
            at = here[seqs == seq]
            names: dict[int, set[str]] = {}
            for call in calls_at(scene.snapshot, standing, int(seq)):
                for i in at[np.isin(scene.members[at], call.ranks)]:
                    names.setdefault(int(i), set()).add(scene.framework.operation(call.spec).name)
            for i, said in names.items():
                if ops[i] in said:
                    fitting[i].append(standing.group)
    return {i: groups[0] if len(groups) == 1 else None for i, groups in fitting.items()}


# ---------------------------------------------------------------- operations


def _collective_waits(scene: Scene, standing: Standing, waiters: Ints) -> list[Wait]:
    at = np.searchsorted(standing.members, waiters)
    leaving = np.isin(scene.phase, (Phase.LEAVING, Phase.EXITING))
    waits = []
    for seq in np.unique(standing.oldest_open[at]):
        here = waiters[standing.oldest_open[at] == seq]
        if not len(here):
            continue
        known = standing.read & ~standing.dropped
        absent = known & (standing.enqueued < seq)
        silent = standing.members[~known]
        presumed, blind = presume(scene, silent)
        sure = standing.members[absent]
        inside = known & ~absent
        if standing.announced:  # it has the number, and its own sighting says what it does before it enters
            late = inside & (standing.oldest_open == seq) & ~np.isin(standing.members, here)
            # Who has left the step and is on its way out has raised in it; who only goes on is through.
            left = inside & (standing.oldest_open == 0) & np.isin(standing.members, scene.members[leaving])
            presumed, inside = (
                np.concatenate([presumed, standing.members[late | left]]),
                inside & ~late & ~left,
            )
        calls = calls_at(scene.snapshot, standing, int(seq))
        mine = [call.spec for call in calls if np.isin(here, call.ranks).any()]
        first = min(mine, key=lambda spec: (spec.op, spec.root)) if mine else None
        roots = {spec.root for spec in mine if spec.root != UNKNOWN}
        called = scene.framework.operation(first)
        waits.append(
            Wait(
                called.name if first else (scene.rank_process(int(here[0])).doing.op or called.name),
                numbers(here),
                numbers(sure),
                numbers(presumed),
                numbers(blind),
                numbers(standing.members[inside]),
                roots.pop() if len(roots) == 1 else UNKNOWN,
                standing.group,
                int(seq),
                standing,
                needs=called.needs,
                doubtful=not standing.sure_members,
            )
        )
    return waits


def _waits_from_stacks(scene: Scene, murky: Bools, host_held: Bools) -> list[Wait]:
    """No recorder told anything: ranks in an operation wait for those that their stacks show elsewhere."""
    held = murky & ~scene.progress_read
    if not held.any():
        return []
    host_held |= held
    rest = scene.members[~held & (scene.in_world) & ~murky]
    presumed, blind = presume(scene, rest)
    return [
        Wait(
            op or scene.framework.words.inside,
            tuple(int(r) for r in ranks),
            (),
            numbers(presumed),
            numbers(blind),
            doubtful=not reducer_seen(scene, ranks),
        )
        for op, ranks in _by_op(scene, held).items()
    ]


def _works_before_entering(scene: Scene, waits: list[Wait], murky: Bools) -> Bools:
    """Ranks inside an operation that all evidence shows in no operation: they pickle, or convert, on their own.

    Their recorder and their page were read, and others certainly wait for them. One that seems to wait there is only
    believed to be on its own if it is behind on gloo: so gloo is recorded here, and what it waits in would show.
    """
    suspects = murky & scene.progress_read & (scene.phase != UNKNOWN) & ~table_full(scene)
    behind, behind_on_host = np.zeros(len(scene.members), bool), np.zeros(len(scene.members), bool)
    for wait in waits if suspects.any() else ():
        if wait.standing is not None or (wait.p2p and not wait.doubtful and not wait.any_one):
            _mark(scene, behind, wait.missing)
        if wait.standing is not None and not wait.standing.on_device:
            _mark(scene, behind_on_host, wait.missing)
    works = ~np.isin(scene.posture, (Posture.FUTEX, Posture.POLL, Posture.SOCKET, Posture.UNKNOWN))
    return np.asarray(suspects & (behind & works | behind_on_host & (scene.kind == Kind.COLLECTIVE)))


def _by_op(scene: Scene, which: Bools) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank in scene.members[which]:
        doing = scene.rank_process(int(rank)).doing
        op = scene.framework.words.backward if doing.kind is Kind.BACKWARD else doing.op
        found.setdefault(op, []).append(int(rank))
    return found


# ---------------------------------------------------------------- the graph


def _graph(scene: Scene, waits: list[Wait], host_held: Bools, murky: Bools) -> Waits:
    waited = np.zeros(len(scene.members), bool)
    presumed = np.zeros(len(scene.members), bool)
    for wait in waits:
        if wait.any_one:
            continue
        named = set(wait.owed)
        _mark(scene, waited, named & set(wait.missing))
        _mark(scene, presumed, named & set(wait.presumed))
    if not (waited | presumed)[~host_held].any():
        for wait in waits:  # any one of several would do: they are named only when nobody else is
            if wait.any_one:
                _mark(scene, waited, set(wait.missing))
                _mark(scene, presumed, set(wait.presumed))
    return Waits(tuple(waits), host_held, waited, presumed, murky, _cycles(scene, waits, host_held))


def _mark(scene: Scene, column: Bools, ranks: Iterable[int]) -> None:
    at = [scene.position(rank) for rank in ranks]
    column[[i for i in at if i >= 0]] = True


def _cycles(scene: Scene, waits: list[Wait], host_held: Bools) -> tuple[tuple[int, ...], ...]:
    """Strongly connected ranks: each waits for another of them. Only certain absences make an edge."""
    held = set(scene.members[host_held].tolist())
    targets = {rank for wait in waits for rank in wait.missing if rank in held}
    # Operations are nodes too (negative), so that two large groups do not make an edge per pair of ranks.
    edges: dict[int, set[int]] = {rank: set() for rank in targets}
    for number, wait in enumerate(waits, 1):
        if wait.any_one and not set(wait.targets) <= held:
            continue
        rooted = wait.needs is Needs.ROOT and wait.root in wait.missing
        edges[-number] = targets & ({wait.root} if rooted else set(wait.missing))
        for waiter in targets.intersection(wait.waiters):
            edges[waiter].add(-number)
    circles = (tuple(node for node in component if node >= 0) for component in components(edges))
    return tuple(sorted(component for component in circles if len(component) > 1))
