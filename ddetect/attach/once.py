"""Three looks and a verdict: `ddetect attach --once`.

Enters: a JobScan that has chosen its job. Leaves: an Incident (nothing is written) and its Snapshot. A hang is claimed
only if nobody who is named or waits has moved between the looks; what moved beside them is told as evidence.
Never here: patience; the verdict stays `suspected` unless its proof needs no time.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ddetect.attach.find import JobScan
from ddetect.attach.still import Stillness
from ddetect.attach.watch import Watched
from ddetect.coordinator import life
from ddetect.coordinator.nodes import Nodes
from ddetect.correlate.judge import judge, wants_native
from ddetect.messages import NodeBeat, NodeRoster, TakeEvidence
from ddetect.model import Cause, Incident, Look, Proof, Settings, Snapshot, Status, Verdict
from ddetect.report.words import name_members

LOOKS = 3
GAP_S = 2.0


def look_and_judge(scan: JobScan, settings: Settings) -> tuple[Incident, Snapshot]:
    """Look three times, two seconds apart, and judge."""
    watched = Watched(scan)
    try:
        nodes, looks = Nodes(), list[Look]()
        native: tuple[int, ...] = ()
        for number in range(LOOKS):
            if number:
                time.sleep(GAP_S)
            _hear(nodes, watched)
            evidence = watched.look(TakeEvidence(number + 1, native))
            looks += [evidence.look] if evidence is not None else []
            snapshot = _snapshot(scan, nodes, looks, settings)
            native = wants_native(snapshot)
        if native:  # asked for after the last look: one more, and it is the one that tells
            evidence = watched.look(TakeEvidence(LOOKS + 1, native))
            looks += [evidence.look] if evidence is not None else []
        _hear(nodes, watched)
        snapshot = _snapshot(scan, nodes, looks[-LOOKS:], settings)
        verdict = unless_moving(judge(snapshot), watched.still, snapshot)
        incident = life.said(None, 0, verdict, snapshot, time.time_ns())
        if verdict.proof is Proof.STRUCTURAL and verdict.status is not Status.UNDECIDED:
            incident = life.proven(incident, time.time_ns())
        return incident, replace(snapshot, stage=incident.stage)
    finally:
        watched.close()


def unless_moving(verdict: Verdict, still: Stillness, snapshot: Snapshot) -> Verdict:
    """A hang stands still. If one of those concerned moved between the looks, three looks have met a working job."""
    if verdict.status not in (Status.HANG, Status.UNDECIDED) or verdict.cause is Cause.PROCESS_STOPPED:
        return verdict
    concerned = {*verdict.culprit_ranks, *(rank for item in verdict.waiting for rank in item.ranks)}
    # A job that ends: somebody is last, and while it moves all is well.
    ends = verdict.cause is Cause.LEFT_EARLY and not verdict.waiting
    if verdict.status is Status.UNDECIDED or not concerned or ends:
        concerned |= {int(rank) for rank in snapshot.roster.rank}
    moved = sorted(rank for rank in concerned if rank in still.why)
    if not moved:
        return verdict
    what = "; ".join(
        f"{reason} on {name_members([rank for rank in moved if still.why[rank] == reason])}"
        for reason in dict.fromkeys(still.why[rank] for rank in moved)
    )
    text = f"the job moves: between {len(snapshot.samples)} looks {what}"
    return Verdict(Status.HEALTHY, None, Proof.TIME, 0.6, text, unread=verdict.unread)


def _hear(nodes: Nodes, watched: Watched) -> None:
    for message in watched.node.tick():
        nodes.change(watched.name, heard_at=time.monotonic())
        match message:
            case NodeRoster():
                nodes.change(watched.name, coming=message)
            case NodeBeat():
                nodes.take_beat(watched.name, message, time.monotonic())
            case _:
                pass  # who dies between three looks is seen in the last


def _snapshot(scan: JobScan, nodes: Nodes, looks: list[Look], settings: Settings) -> Snapshot:
    return Snapshot(
        job=scan.name,
        world_size=nodes.world_size(),
        framework=nodes.framework() or Snapshot.framework,
        taken_at_unix_ns=time.time_ns(),
        roster=nodes.roster(),
        beats=nodes.beats(time.monotonic()),
        looks=tuple(looks),
        settings=settings,
    )
