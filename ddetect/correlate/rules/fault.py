"""Somebody died: the first fault, by causality and then by age. The others' errors follow from it (consequence.py).

A loader worker counts when its rank says so, or when the rank still waits for it; at the end of an epoch workers
vanish in peace. Equal faults of one moment are all named: rank numbers and microseconds make no culprit.
Where somebody wanted the job to end (on_purpose.py) nobody is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.phrases import culprit
from ddetect.correlate.rules.aborted import aborted_inside
from ddetect.correlate.rules.consequence import (
    ENDED_BY_LAUNCHER,
    SEEN_LATE_S,
    asks_to_end,
    deaths_of,
    is_unseen,
    last_words,
    only_exited,
    origins,
    tells_of_a_peer,
    was_asked,
)
from ddetect.correlate.rules.death_words import death_lines, stderr_lines
from ddetect.correlate.rules.on_purpose import ended_on_purpose
from ddetect.correlate.rules.refused import calls_refused
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import Waits
from ddetect.frameworks.kinds import Kind
from ddetect.model import (
    UNSEEN_ERROR,
    Cause,
    Departure,
    Frame,
    Gone,
    Phase,
    Process,
    Proof,
    Raised,
    Role,
    Status,
    rank_of,
)
from ddetect.model.claims import ExitedWith, LeftBehind, OnPurpose, RaisedFirst, Vanished, WorkersKilled
from ddetect.model.deeds import Act, Deed
from ddetect.report.deeds import worker_words
from ddetect.report.words import first_line, name_members, name_signal

_EXIT_CODE_ONLY = (UNSEEN_ERROR, "SystemExit")
SAME_MOMENT_S = 0.25
"""Like faults this close together are equal: the clocks of two nodes do not tell more."""


def only_consequences(scene: Scene) -> bool:
    """Ranks died, and all of them because of somebody else."""
    deaths = deaths_of(scene)
    return bool(deaths) and not origins(deaths, scene.framework) and not _dead_workers(scene)


def on_purpose(scene: Scene) -> OnPurpose | None:
    """How somebody who wanted it ended the job; None if nobody did."""
    return ended_on_purpose(scene, [worker for _, worker in _dead_workers(scene)])


def first_fault(scene: Scene, waits: Waits) -> list[Finding]:
    """Name who died first, and of what."""
    wish = on_purpose(scene)
    if wish is not None:
        return [
            Finding(
                Precedence.FIRST_FAULT, Status.STOPPED, None, Proof.TIME, confidence.DEAD, (wish,), (),
                death_lines(deaths_of(scene), scene.framework),
            )
        ]  # fmt: skip
    dead_workers = _dead_workers(scene)
    victims = {rank for rank, _ in dead_workers}
    deaths = [gone for gone in deaths_of(scene) if gone.rank not in victims]
    firsts = origins(deaths, scene.framework)
    if dead_workers and not any(gone.age_s > dead_workers[0][1].age_s + SEEN_LATE_S for gone in firsts):
        oldest_worker = dead_workers[0][1]
        return [_workers_died(scene, [p for p in dead_workers if _killed_together(p[1], oldest_worker)])]
    if not firsts:
        return (
            _raised_and_stays(scene, deaths) or aborted_inside(scene, deaths) or _left_behind(scene, deaths)
        )
    # A launcher ends the others with SIGTERM: whoever died of anything else died before.
    firsts = [gone for gone in firsts if gone.signal != ENDED_BY_LAUNCHER] or firsts
    # What was raised is preferred to what vanished at about the same time, where the kernel told no signal.
    oldest = max(gone.age_s for gone in firsts)
    close = [gone for gone in firsts if gone.age_s >= oldest - SEEN_LATE_S]
    raised = [gone for gone in close if gone.how is Departure.RAISED]
    untold = all(not gone.signal for gone in close if gone.how is Departure.VANISHED)
    pool = raised if raised and untold else close
    eldest = max(pool, key=lambda gone: gone.age_s)
    if scene.framework.refuses_calls(eldest.exception) and (refused := calls_refused(scene, deaths)):
        return refused
    first = [gone for gone in pool if _equal(gone, eldest)]
    return [rank_died(scene, sorted(first, key=lambda gone: gone.rank), deaths)]


def _equal(gone: Gone, oldest: Gone) -> bool:
    """Whether both are the same fault in the same moment, as far as clocks tell; numbers in an error may differ."""
    if gone.age_s >= oldest.age_s - 1e-9:
        return True
    if gone.how is not oldest.how or gone.age_s < oldest.age_s - SAME_MOMENT_S:
        return False
    if gone.how is Departure.RAISED:  # a victim leaves with the same exit code: that alone says nothing
        return _words(gone) == _words(oldest) and not gone.exception.startswith(_EXIT_CODE_ONLY)
    return gone.signal == oldest.signal and gone.signal not in (0, ENDED_BY_LAUNCHER)


def _words(gone: Gone) -> str:
    return re.sub(r"\d+", "#", first_line(gone.exception))


def _killed_together(worker: Gone, oldest: Gone) -> bool:
    return worker.signal == oldest.signal and worker.age_s >= oldest.age_s - SEEN_LATE_S


def _dead_workers(scene: Scene) -> list[tuple[int, Gone]]:
    """Loader workers whose death their rank suffers from, oldest first, with that rank."""
    dead = [
        gone
        for gone in scene.snapshot.gone
        if gone.role is Role.LOADER_WORKER and gone.how is Departure.VANISHED and _is_missed(scene, gone)
    ]
    return [(gone.rank, gone) for gone in sorted(dead, key=lambda gone: (-gone.age_s, gone.rank))]


def _is_missed(scene: Scene, worker: Gone) -> bool:
    """Whether the worker's rank died of its death, is about to, or still waits for it."""
    rank = scene.gone_ranks.get(worker.rank)
    if rank is None:
        # A rank ends workers of a loader that it has done with by SIGTERM: nobody misses those.
        return _names(scene, _last_words(scene, worker.rank), worker) or (
            worker.signal != ENDED_BY_LAUNCHER and _is_waited_for(scene, worker)
        )
    if rank.how is not Departure.RAISED:
        return False
    return _names(scene, rank.exception, worker) or (
        rank.exception.startswith(UNSEEN_ERROR) and _killed_before(worker, rank)
    )


def _names(scene: Scene, exception: str, worker: Gone) -> bool:
    """Whether this is the framework's word that the worker died."""
    return worker.pid in scene.framework.lost_workers(exception)


def _last_words(scene: Scene, rank: int) -> str:
    """What a rank raised that is still on its way out."""
    raised = scene.rank_process(rank).sighting.raised if scene.position(rank) >= 0 else None
    return raised.exception if raised is not None and raised.fatal else ""


def _killed_before(worker: Gone, rank: Gone) -> bool:
    """A worker that was killed, and not by its own rank, which ends its workers with SIGTERM when it goes."""
    return worker.signal not in (0, ENDED_BY_LAUNCHER) and worker.age_s >= rank.age_s


def _is_waited_for(scene: Scene, worker: Gone) -> bool:
    """Whether its rank waits for a batch of the loader that this worker was of, as far as can be told.

    Workers of one loader are numbered without a gap: a living one of the same number, or a number below that neither
    lives nor was killed, belong to another loader.
    """
    if not _waits_for_data(scene, worker.rank, worker.age_s):
        return False
    living = {seen.index for seen in scene.others_of(worker.rank, Role.LOADER_WORKER)}
    if worker.index in living:
        return False
    killed = {
        gone.index
        for gone in scene.snapshot.gone
        if gone.rank == worker.rank and gone.role is Role.LOADER_WORKER and gone.how is Departure.VANISHED
    }
    return not living or set(range(worker.index)) <= living | killed


def _waits_for_data(scene: Scene, rank: int, died_age_s: float) -> bool:
    """Whether this rank waits for a batch, and began to before its worker died, or not long after."""
    kind = scene.rank_process(rank).doing.kind
    waits_s = scene.phase_age_s[scene.position(rank)]
    if died_age_s > waits_s + SEEN_LATE_S:  # also when its age is not known: nan compares as False
        return False
    return scene.phase_of(rank) is Phase.DATA or kind in (Kind.DATA_LOADING, Kind.FETCH)


def _last_frame(scene: Scene, pid: int, role: Role) -> Frame | None:
    """The user's line at which this process was last seen alive."""
    for sample in reversed(scene.snapshot.samples):
        for row in np.flatnonzero(sample.pid == pid):
            frame = scene.doing(sample.sightings[int(sample.sighting[row])], role).frame
            if frame is not None:
                return frame
    return None


def _workers_died(scene: Scene, dead: list[tuple[int, Gone]]) -> Finding:
    dead = sorted(dead, key=lambda pair: (pair[0], pair[1].index, pair[1].pid))
    evidence, culprits, workers = [], [], []
    for rank, gone in dead:
        process, its_rank = (
            Process("loader_worker", gone.index, gone.pid),
            name_members((rank,), scene.names.by_rank),
        )
        workers.append((rank, process))
        told = f"{worker_words(process)} of {its_rank}"
        evidence.append(f"{told} vanished {gone.age_s:.1f} s ago: killed by {name_signal(gone.signal)}")
        last = scene.gone_ranks.get(rank)
        if last is not None and last.exception:
            evidence.append(f"{its_rank} raised because of it: {last.exception}")
        where = scene.whose.where(gone.where or _last_frame(scene, gone.pid, Role.LOADER_WORKER))
        culprits.append(culprit(scene, rank, Deed(Act.LOST_WORKER), where=where, process=process, whole=True))
    return Finding(
        Precedence.FIRST_FAULT, Status.STOPPED, Cause.KILLED_BY_SIGNAL, Proof.STRUCTURAL, confidence.DEAD,
        (WorkersKilled(tuple(workers)),), tuple(culprits), tuple(evidence[:16]),
    )  # fmt: skip


def rank_died(scene: Scene, first: list[Gone], deaths: list[Gone]) -> Finding:
    """The finding that these ranks, all alike, died first."""
    one = first[0]
    raised = one.how is Departure.RAISED
    culprits = []
    for gone in first:
        where = scene.whose.where(gone.where or (None if raised else _last_frame(scene, gone.pid, Role.RANK)))
        culprits.append(
            replace(culprit(scene, gone.rank, _deed(gone), where=where, whole=True), pid=gone.pid)
        )
    ranks, where = tuple(gone.rank for gone in first), culprits[0].where
    each = all(gone.signal == one.signal and gone.signal not in (0, ENDED_BY_LAUNCHER) for gone in first)
    claim: RaisedFirst | Vanished | ExitedWith = Vanished(ranks, one.pid, one.signal, where, each)
    if only_exited(one):
        claim, raised = ExitedWith(ranks, one.code, where), True
    elif raised:
        claim = RaisedFirst(ranks, one.exception, where)
    evidence = (*death_lines(deaths, scene.framework), *stderr_lines(first, scene.names))
    factors = [confidence.SAME_MOMENT] if len(first) > 1 and not _each_its_own(first) else []
    if raised and one.exception.startswith(UNSEEN_ERROR):
        factors.append(confidence.WEAK_SIGHTING)  # an exit code is all that is known of what it raised
    if is_unseen(one):
        factors.append(confidence.END_UNSEEN)
    return Finding(
        Precedence.FIRST_FAULT, Status.STOPPED, Cause.PYTHON_EXCEPTION if raised else Cause.KILLED_BY_SIGNAL,
        Proof.STRUCTURAL, confidence.times(confidence.DEAD, *factors), (claim,),
        tuple(culprits), evidence,
    )  # fmt: skip


def _deed(gone: Gone) -> Deed:
    if only_exited(gone):
        return Deed(Act.EXITED_WITH, said=str(gone.code))
    if gone.how is Departure.RAISED:
        return Deed(Act.RAISED, said=gone.exception)
    return Deed(Act.VANISHED) if is_unseen(gone) else Deed(Act.WAS_KILLED, signal=gone.signal)


def _each_its_own(first: list[Gone]) -> bool:
    """Whether each of them told a fault of its own: then none of them died of another."""
    return all(
        gone.how is Departure.RAISED and not gone.exception.startswith(_EXIT_CODE_ONLY) for gone in first
    )


def _raised_and_stays(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Peers died of a closed connection: somebody raised and is not gone yet."""
    deaths = [gone for gone in deaths if not was_asked(gone)]
    faults = {
        rank: raised
        for rank, raised in last_words(scene).items()
        if not asks_to_end(raised.exception) and not tells_of_a_peer(raised, scene.framework)
    }
    return [_raised_and_lives(scene, faults, deaths)] if faults and deaths else []


def _left_behind(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Peers died of a closed connection: somebody had left in peace before."""
    deaths = [gone for gone in deaths if not was_asked(gone)]
    if not deaths:
        return []
    words = last_words(scene)
    first = max(gone.age_s for gone in deaths)
    left = [gone.rank for gone in scene.departed if gone.how is Departure.EXITED]
    left = [rank for rank in left if scene.gone_ranks[rank].age_s >= first - SEEN_LATE_S]
    on_the_way = scene.members[np.isin(scene.phase, (Phase.LEAVING, Phase.EXITING)) & scene.live]
    # Who raised does not leave in peace.
    leaving = [rank_of(int(member)) for member in on_the_way if rank_of(int(member)) not in words]
    ranks = sorted({*left, *leaving})
    if not ranks or len(ranks) + len(deaths) > scene.count_ranks:
        return []
    culprits = tuple(culprit(scene, rank, Deed(Act.LEFT_EARLY), whole=True) for rank in ranks)
    # A rank that is still on its way out lives: it is named instead of a death.
    sure = confidence.BESIDE_A_DEATH if leaving else 1.0
    claim = LeftBehind(tuple(ranks), tuple(gone.rank for gone in deaths))
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.LEFT_EARLY, Proof.STRUCTURAL,
            confidence.times(confidence.LEFT_EARLY, sure), (claim,), culprits, death_lines(deaths, scene.framework),
        )
    ]  # fmt: skip


def _raised_and_lives(scene: Scene, faults: Mapping[int, Raised], deaths: list[Gone]) -> Finding:
    """What these ranks raised ends them, and the others died of it before they were gone: as sure as a death."""
    culprits = tuple(
        culprit(
            scene,
            rank,
            Deed(Act.RAISED, said=raised.exception),
            where=scene.whose.where(raised.where),
            whole=True,
        )
        for rank, raised in sorted(faults.items())
    )
    lines = [
        f"{name_members((rank,), scene.names.by_rank)} raised {first_line(raised.exception)}, and is on its way out"
        for rank, raised in sorted(faults.items())
    ]
    ranks = tuple(sorted(faults))
    claim = RaisedFirst(
        ranks, faults[ranks[0]].exception, culprits[0].where,
        others=len({first_line(raised.exception) for raised in faults.values()}) > 1,
        victims=tuple(gone.rank for gone in deaths),
    )  # fmt: skip
    return Finding(
        Precedence.FIRST_FAULT, Status.STOPPED, Cause.PYTHON_EXCEPTION, Proof.STRUCTURAL, confidence.DEAD,
        (claim,), culprits, (*lines[:8], *death_lines(deaths, scene.framework)),
    )  # fmt: skip
