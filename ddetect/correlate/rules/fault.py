"""Somebody died: the first fault, by causality and then by age. The others' errors follow from it.

Gloo's "connection closed by peer" and every timeout are consequences. A loader worker counts when its rank says so,
or when the rank still waits for it; at the end of an epoch workers vanish in peace.
"""

from __future__ import annotations

import re
import signal

import numpy as np

from ddetect.correlate import confidence
from ddetect.correlate.finding import Finding, Precedence
from ddetect.correlate.kinds import Kind
from ddetect.correlate.phrases import ranks_words
from ddetect.correlate.scene import Scene
from ddetect.correlate.waits import Waits
from ddetect.correlate.where import format_where, where_of
from ddetect.model import (
    UNSEEN_ERROR,
    Cause,
    Culprit,
    Departure,
    Frame,
    Gone,
    Phase,
    Process,
    Proof,
    Role,
    Status,
)

_CONSEQUENCE = re.compile(
    r"connection (was )?closed by peer|connection reset by peer|broken pipe|socket closed|remote process exited"
    r"|timed out waiting|application timeout|watchdog caught|ncclremoteerror|nccl communicator was aborted"
    r"|connection refused|failed to recv|recvvalue failed|store.*(closed|timeout)|wait timeout|monitoredbarrier"
    r"|keyboardinterrupt",
    re.IGNORECASE,
)
_SAW_A_DEATH = re.compile(
    r"closed by peer|connection reset by peer|broken pipe|socket closed|remote process exited", re.IGNORECASE
)
"""Of the consequences, those that only a peer's death makes; a refused or late connection needs none."""
_LOADER_DEATH = re.compile(r"DataLoader worker \(pid\(?s?\)?\s*([\d, ]+)\)")
_ENDED_BY_LAUNCHER = 15
SEEN_LATE_S = 1.5
"""A process that vanished is seen only when the agent next looks; an exception wrote its own time."""


def is_consequence(gone: Gone) -> bool:
    """Whether this death only follows from another rank's."""
    return gone.how is Departure.RAISED and _CONSEQUENCE.search(gone.exception) is not None


def _follows(gone: Gone, deaths: list[Gone]) -> bool:
    """Whether this death follows from another: by what it says, or because the launcher ended the rest.

    Who got SIGTERM after another rank had raised was ended for it. Unless that rank saw a peer die: then only a death
    that came later than we may be late in noticing it is excused.
    """
    if gone.how is Departure.VANISHED and gone.signal == _ENDED_BY_LAUNCHER:
        raised = [one for one in deaths if one.how is Departure.RAISED]
        return any(
            one.age_s > gone.age_s + (SEEN_LATE_S if _SAW_A_DEATH.search(one.exception) else 0.0)
            for one in raised
        )
    return is_consequence(gone)


def only_consequences(scene: Scene) -> bool:
    """Ranks died, and all of them because of somebody else."""
    deaths = [gone for gone in scene.gone_ranks.values() if gone.how is not Departure.EXITED]
    return bool(deaths) and all(_follows(gone, deaths) for gone in deaths) and not _dead_workers(scene)


def first_fault(scene: Scene, waits: Waits) -> list[Finding]:
    """Name who died first, and of what."""
    dead_workers = _dead_workers(scene)
    victims = {rank for rank, _ in dead_workers}
    deaths = [g for g in scene.gone_ranks.values() if g.how is not Departure.EXITED and g.rank not in victims]
    origins = [gone for gone in deaths if not _follows(gone, deaths)]
    if dead_workers and not any(gone.age_s > dead_workers[0][1].age_s + SEEN_LATE_S for gone in origins):
        return [_worker_died(scene, *dead_workers[0])]
    if not origins:
        return _left_behind(scene, deaths)
    # A launcher ends the others with SIGTERM: whoever died of anything else died before.
    origins = [gone for gone in origins if gone.signal != _ENDED_BY_LAUNCHER] or origins
    # What was raised is preferred to what vanished at about the same time, where the kernel told no signal.
    oldest = max(gone.age_s for gone in origins)
    close = [gone for gone in origins if gone.age_s >= oldest - SEEN_LATE_S]
    raised = [gone for gone in close if gone.how is Departure.RAISED]
    untold = all(not gone.signal for gone in close if gone.how is Departure.VANISHED)
    pool = raised if raised and untold else close
    first = [gone for gone in pool if gone.age_s >= max(g.age_s for g in pool) - 1e-9]
    return [_rank_died(scene, sorted(first, key=lambda gone: gone.rank), deaths)]


def _dead_workers(scene: Scene) -> list[tuple[int, Gone]]:
    """Loader workers whose death their rank suffers from, oldest first, with that rank."""
    found = []
    for gone in scene.snapshot.gone:
        if gone.role is not Role.LOADER_WORKER or gone.how is not Departure.VANISHED:
            continue
        rank = scene.gone_ranks.get(gone.rank)
        if rank is not None and rank.how is Departure.RAISED:
            if _names(rank.exception, gone) or (
                rank.exception.startswith(UNSEEN_ERROR) and _killed_before(gone, rank)
            ):
                found.append((gone.rank, gone))
        elif rank is None and _names(_last_words(scene, gone.rank), gone):
            found.append((gone.rank, gone))
        elif rank is None and _waits_for_data(scene, gone.rank, gone.age_s):
            living = {seen.index for seen in scene.others_of(gone.rank, Role.LOADER_WORKER)}
            if gone.index not in living:
                found.append((gone.rank, gone))
    return sorted(found, key=lambda pair: (-pair[1].age_s, pair[0]))


def _names(exception: str, worker: Gone) -> bool:
    """Whether this is torch's word that the worker died."""
    said = _LOADER_DEATH.search(exception)
    return said is not None and str(worker.pid) in re.findall(r"\d+", said[1])


def _last_words(scene: Scene, rank: int) -> str:
    """What a rank raised that is still on its way out."""
    raised = scene.rank_process(rank).sighting.raised if scene.position(rank) >= 0 else None
    return raised.exception if raised is not None and raised.fatal else ""


def _killed_before(worker: Gone, rank: Gone) -> bool:
    """A worker that was killed, and not by its own rank, which ends its workers with SIGTERM when it goes."""
    return worker.signal not in (0, _ENDED_BY_LAUNCHER) and worker.age_s >= rank.age_s


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


def _worker_died(scene: Scene, rank: int, gone: Gone) -> Finding:
    where = where_of(gone.where or _last_frame(scene, gone.pid, Role.LOADER_WORKER))
    worker = (
        f"loader worker {gone.index} (pid {gone.pid})"
        if gone.index >= 0
        else f"a loader worker (pid {gone.pid})"
    )
    told = scene.gone_ranks.get(rank)
    evidence = [f"{worker} of rank {rank} vanished {gone.age_s:.1f} s ago: killed by {_signal(gone)}"]
    if told is not None and told.exception:
        evidence.append(f"rank {rank} raised because of it: {told.exception}")
    culprit = Culprit(
        rank, host=scene.host(rank), pid=scene.pid(rank), process=Process("loader_worker", gone.index, gone.pid),
        where=where, doing="lost its loader worker",
    )  # fmt: skip
    return Finding(
        Precedence.FIRST_FAULT, Status.STOPPED, Cause.KILLED_BY_SIGNAL, Proof.STRUCTURAL, confidence.DEAD,
        f"{worker} of rank {rank} was killed", (culprit,), tuple(evidence),
    )  # fmt: skip


def _rank_died(scene: Scene, first: list[Gone], deaths: list[Gone]) -> Finding:
    one = first[0]
    raised = one.how is Departure.RAISED
    culprits = []
    for gone in first:
        where = where_of(gone.where or (None if raised else _last_frame(scene, gone.pid, Role.RANK)))
        doing = f"raised {gone.exception}" if raised else "was killed"
        culprits.append(
            Culprit(gone.rank, host=scene.host(gone.rank), pid=gone.pid, where=where, doing=doing)
        )
    ranks = [gone.rank for gone in first]
    if raised:
        at = f" in {format_where(culprits[0].where)}" if culprits[0].where else ""
        says = f"{ranks_words(ranks)} raised {_short(one.exception)}{at}"
    else:
        at = f"; last seen in {format_where(culprits[0].where)}" if culprits[0].where else ""
        says = f"{ranks_words(ranks)} (pid {one.pid}) vanished without a word: killed by {_signal(one)}{at}"
        if len(first) > 1:
            says = f"{ranks_words(ranks)} vanished in the same moment: one was killed, and the rest was ended after it"
    evidence = [_death_line(gone) for gone in sorted(deaths, key=lambda gone: (-gone.age_s, gone.rank))][:8]
    factors = [confidence.SAME_MOMENT] if len(first) > 1 else []
    if raised and one.exception.startswith(UNSEEN_ERROR):
        factors.append(confidence.WEAK_SIGHTING)  # an exit code is all that is known of what it raised
    return Finding(
        Precedence.FIRST_FAULT, Status.STOPPED, Cause.PYTHON_EXCEPTION if raised else Cause.KILLED_BY_SIGNAL,
        Proof.STRUCTURAL, confidence.times(confidence.DEAD, *factors), says,
        tuple(culprits), tuple(evidence),
    )  # fmt: skip


def _signal(gone: Gone) -> str:
    """Write "SIGKILL", or "a signal" where nobody told which."""
    try:
        return signal.Signals(gone.signal).name
    except ValueError:
        return f"signal {gone.signal}" if gone.signal else "a signal"


def _short(exception: str) -> str:
    line = exception.strip().splitlines()[0] if exception.strip() else "an exception"
    return line if len(line) <= 120 else line[:117] + "..."


def _death_line(gone: Gone) -> str:
    at = f" at {gone.where.function} ({gone.where.file}:{gone.where.line})" if gone.where else ""
    what = f"raised {_short(gone.exception)}{at}" if gone.how is Departure.RAISED else "vanished"
    what += f", killed by {_signal(gone)}," if gone.signal else ""
    note = " (a consequence)" if is_consequence(gone) else ""
    return f"rank {gone.rank} (pid {gone.pid}) {what} {gone.age_s:.1f} s ago{note}"


def _left_behind(scene: Scene, deaths: list[Gone]) -> list[Finding]:
    """Peers died of a closed connection: somebody had left in peace before."""
    if not deaths:
        return []
    first = max(gone.age_s for gone in deaths)
    left = [gone.rank for gone in scene.gone_ranks.values() if gone.how is Departure.EXITED]
    left = [rank for rank in left if scene.gone_ranks[rank].age_s >= first - SEEN_LATE_S]
    leaving = np.isin(scene.phase, (Phase.LEAVING, Phase.EXITING)) & scene.live
    ranks = sorted({*left, *(int(rank) for rank in scene.ranks[leaving])})
    if not ranks or len(ranks) + len(deaths) > scene.world:
        return []
    culprits = tuple(
        Culprit(r, host=scene.host(r), pid=scene.pid(r), doing="left its process group") for r in ranks
    )
    evidence = tuple(_death_line(gone) for gone in sorted(deaths, key=lambda gone: (-gone.age_s, gone.rank)))[
        :8
    ]
    says = f"{ranks_words(ranks)} left early; {ranks_words([g.rank for g in deaths])} died of the closed connection"
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.LEFT_EARLY, Proof.STRUCTURAL, confidence.LEFT_EARLY, says,
            culprits, evidence,
        )
    ]  # fmt: skip


def oldest_consequence(scene: Scene) -> list[Finding]:
    """Only consequences are known, of whom nobody is known: say what was raised first, and that it is not the cause."""
    deaths = [gone for gone in scene.gone_ranks.values() if gone.how is not Departure.EXITED]
    if not deaths:
        return []
    first = max(deaths, key=lambda gone: (gone.age_s, -gone.rank))
    finding = _rank_died(scene, [first], deaths)
    note = "this error is usually a consequence of another rank's fault, which was not seen"
    return [
        Finding(
            Precedence.FIRST_FAULT, Status.STOPPED, Cause.PYTHON_EXCEPTION, Proof.STRUCTURAL,
            confidence.times(confidence.DEAD, 0.5), finding.says, finding.culprits, (*finding.evidence, note),
        )
    ]  # fmt: skip
